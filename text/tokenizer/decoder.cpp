#include "text/tokenizer/decoder.h"

#include <limits>
#include <utility>

#include "base/status.h"
#include "text/tokenizer/decoder_stages.h"
#include "text/tokenizer/read_character.h"
#include "text/unicode/utf8.h"

namespace incipit {

class TokenDecoding::Collector : public TokenSink {
 public:
  void Text(std::string_view text) override { text_ += text; }
  void EndToken() override {}
  void EndList() override {}
  std::string Take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

TokenDecoding::TokenDecoding(const std::vector<std::unique_ptr<const DecoderStep>>& steps,
                             bool is_continued)
    : collector_(std::make_unique<Collector>()) {
  std::vector<DecodeStart> starts;
  DecodeStart start{.is_continued = is_continued, .is_joined = false};
  for (const auto& step : steps) {
    starts.push_back(start);
    start.is_joined = start.is_joined || step->joins();
  }
  TokenSink* next = collector_.get();
  for (size_t i = steps.size(); i-- > 0;) {
    stages_.push_back(steps[i]->Begin(starts[i], *next));
    next = stages_.back().get();
  }
}

TokenDecoding::~TokenDecoding() = default;

void TokenDecoding::Add(std::string_view token) {
  TokenSink& first = stages_.empty() ? *collector_ : *stages_.back();
  first.Token(token);
}

void TokenDecoding::Finish() {
  TokenSink& first = stages_.empty() ? *collector_ : *stages_.back();
  first.EndList();
}

std::string TokenDecoding::Take() { return collector_->Take(); }

namespace {

absl::Status AddSteps(const JsonFields& fields, TokenDecoder& decoder);

absl::Status AddSequence(const JsonFields& fields, TokenDecoder& decoder) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* array, fields.Array("decoders"));
  for (size_t i = 0; i < array->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(
        const JsonFields step,
        JsonFields::Of((*array)[i], fmt::format("{}[{}]", fields.PathOf("decoders"), i)));
    INCIPIT_RETURN_IF_ERROR(AddSteps(step, decoder));
  }
  return absl::OkStatus();
}

absl::Status AddMetaspace(const JsonFields& fields, TokenDecoder& decoder) {
  INCIPIT_ASSIGN_OR_RETURN(const char32_t replacement, ReadCharacter(fields, "replacement"));
  INCIPIT_ASSIGN_OR_RETURN(const bool adds_space, fields.Bool("add_prefix_space", true));
  INCIPIT_ASSIGN_OR_RETURN(const auto scheme, fields.OptionalString("prepend_scheme"));
  decoder.steps.push_back(MetaspaceStep(replacement, adds_space && scheme != "never"));
  return absl::OkStatus();
}

absl::Status AddStrip(const JsonFields& fields, TokenDecoder& decoder) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  INCIPIT_ASSIGN_OR_RETURN(const char32_t content, ReadCharacter(fields, "content"));
  INCIPIT_ASSIGN_OR_RETURN(const int64_t start, fields.Integer("start", {0, kMax}));
  INCIPIT_ASSIGN_OR_RETURN(const int64_t stop, fields.Integer("stop", {0, kMax}));
  decoder.steps.push_back(StripStep(content, start, stop));
  return absl::OkStatus();
}

absl::Status AddReplace(const JsonFields& fields, TokenDecoder& decoder) {
  INCIPIT_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::Create(fields));
  INCIPIT_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
  decoder.steps.push_back(ReplaceStep(std::move(pattern), std::move(content)));
  return absl::OkStatus();
}

absl::Status AddWordPiece(const JsonFields& fields, TokenDecoder& decoder) {
  INCIPIT_ASSIGN_OR_RETURN(std::string prefix, fields.String("prefix"));
  INCIPIT_ASSIGN_OR_RETURN(const bool cleans_up, fields.Bool("cleanup", true));
  decoder.steps.push_back(WordPieceStep(std::move(prefix), cleans_up));
  return absl::OkStatus();
}

absl::Status AddSteps(const JsonFields& fields, TokenDecoder& decoder) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type == "Sequence") return AddSequence(fields, decoder);
  if (type == "Metaspace") return AddMetaspace(fields, decoder);
  if (type == "Strip") return AddStrip(fields, decoder);
  if (type == "Replace") return AddReplace(fields, decoder);
  if (type == "WordPiece") return AddWordPiece(fields, decoder);
  if (type == "ByteLevel") {
    decoder.is_byte_level = true;
    decoder.steps.push_back(ByteLevelStep());
  } else if (type == "ByteFallback") {
    decoder.has_byte_fallback = true;
    decoder.steps.push_back(ByteFallbackStep());
  } else if (type == "Fuse") {
    decoder.steps.push_back(FuseStep());
  } else if (type == "BPEDecoder") {
    INCIPIT_ASSIGN_OR_RETURN(std::string suffix, fields.String("suffix"));
    if (suffix.empty()) return InvalidArgument("{} is empty", fields.PathOf("suffix"));
    decoder.steps.push_back(WordSuffixStep(std::move(suffix)));
  } else {
    return Unimplemented("the field {} has the unsupported value {}", fields.PathOf("type"), type);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenDecoder> CreateTokenDecoder(const JsonFields* fields) {
  TokenDecoder decoder;
  if (fields == nullptr) {
    decoder.steps.push_back(SpacesBetweenStep());
    return decoder;
  }
  INCIPIT_RETURN_IF_ERROR(AddSteps(*fields, decoder));
  return decoder;
}

int ByteOfFallbackToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      byte = byte * 16 + (c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      byte = byte * 16 + (lower - 'a' + 10);
    } else {
      return -1;
    }
  }
  return byte;
}

}  // namespace incipit
