#include "cli/analysis/trace.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/status.h"
#include "cli/json_lines.h"
#include "cli/line_reader.h"

namespace incipit {
namespace {

using nlohmann::json;

// Maximum value of input_length and of output_length, in tokens.
constexpr uint64_t kLengthMax = std::numeric_limits<int32_t>::max();
constexpr uint64_t kTokenIdMax = std::numeric_limits<TokenId>::max();

enum class TraceKey : uint8_t {
  kOther,
  kTimestamp,
  kInputLength,
  kOutputLength,
  kHashIds,
  kTokenIds,
  kPrompt
};

TraceKey TraceKeyOf(std::string_view name) {
  if (name == "timestamp") return TraceKey::kTimestamp;
  if (name == "input_length") return TraceKey::kInputLength;
  if (name == "output_length") return TraceKey::kOutputLength;
  if (name == "hash_ids") return TraceKey::kHashIds;
  for (const std::string_view ids : {"token_ids", "prompt_token_ids", "input_ids", "ids"}) {
    if (name == ids) return TraceKey::kTokenIds;
  }
  if (name == "prompt" || name == "text") return TraceKey::kPrompt;
  return TraceKey::kOther;
}

// Parses one line of a log. The JSON parser calls a method of this class for each value that the
// parser reads. A method that returns false stops the parser; status() then returns the error.
class TraceLine : public nlohmann::json_sax<json> {
 public:
  const absl::Status& status() const { return status_; }
  TraceRequest& request() { return request_; }
  bool has_hash_ids() const { return has_hash_ids_; }
  bool has_token_ids() const { return has_token_ids_; }
  std::optional<std::string>& prompt() { return prompt_; }
  bool has_input_length() const { return has_input_length_; }

  bool null() override { return in_ids_ ? WrongType() : NoPrompt(); }
  bool boolean(bool) override { return Other(); }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value),
                  std::nullopt);  // a negative number is not an id
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), value);
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Number(value, std::nullopt);
  }
  bool string(string_t& value) override {
    const bool is_prompt = depth_ == 0 || (depth_ == 1 && key_ == TraceKey::kPrompt);
    if (!is_prompt) return Other();
    prompt_ = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return Other(); }

  bool start_object(size_t) override {
    if (depth_ > 0 && !Other()) return false;
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      key_ = TraceKeyOf(name);
      if (key_ != TraceKey::kOther) name_ = name;
    }
    return true;
  }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override {
    if (!BeginsIds()) {
      if (!Other()) return false;
    } else if (key_ == TraceKey::kHashIds) {
      has_hash_ids_ = true;
      request_.hash_ids.clear();
    } else {
      has_token_ids_ = true;
      request_.token_ids.clear();
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    in_ids_ = false;
    return Leave();
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    status_ = InvalidArgument("not valid JSON: error at byte {}", position);
    return false;
  }

 private:
  bool Leave() {
    --depth_;
    return true;
  }
  // Called at the start of a JSON array. Returns true if the elements of the array are hash ids or
  // token ids.
  bool BeginsIds() {
    if (in_ids_ || depth_ > 1) return false;
    if (depth_ == 0) name_ = "a line";
    if (depth_ == 0 || key_ == TraceKey::kPrompt) key_ = TraceKey::kTokenIds;
    in_ids_ = key_ == TraceKey::kHashIds || key_ == TraceKey::kTokenIds;
    ids_depth_ = depth_ + 1;
    return in_ids_;
  }
  bool NoPrompt() {
    if (depth_ == 0) {
      status_ = InvalidArgument("a line must be an object, a string or an array of token ids");
    }
    return depth_ > 0;
  }
  // Handles a JSON value that does not have the expected type. If the parser uses the key of the
  // value, the value is an error. Otherwise the value is ignored.
  bool Other() {
    if (depth_ == 0) return NoPrompt();
    return in_ids_ || (depth_ == 1 && key_ != TraceKey::kOther) ? WrongType() : true;
  }

  bool WrongType() {
    switch (key_) {
      case TraceKey::kOther:
        return true;
      case TraceKey::kTimestamp:
        status_ = InvalidArgument("{} must be a finite number", name_);
        return false;
      case TraceKey::kInputLength:
      case TraceKey::kOutputLength:
        status_ = InvalidArgument("{} must be a whole number from 0 to {}", name_, kLengthMax);
        return false;
      case TraceKey::kHashIds:
        status_ = InvalidArgument("{} must be an array of whole numbers from 0 to 2^64 - 1 ({})",
                                  name_, Position(request_.hash_ids.size()));
        return false;
      case TraceKey::kTokenIds:
        status_ = InvalidArgument("{} must be an array of whole numbers from 0 to {} ({})", name_,
                                  kTokenIdMax, Position(request_.token_ids.size()));
        return false;
      case TraceKey::kPrompt:
        status_ = InvalidArgument("{} must be a string or an array of token ids", name_);
        return false;
    }
    return false;
  }
  std::string Position(size_t index) const {
    return in_ids_ ? fmt::format("element {} is wrong", index)
                   : std::string("the value is not an array");
  }

  bool Number(double value, std::optional<uint64_t> whole) {
    if (depth_ == 0) return NoPrompt();
    if (in_ids_) return depth_ == ids_depth_ && whole ? AddId(*whole) : WrongType();
    if (depth_ > 1) return true;
    switch (key_) {
      case TraceKey::kOther:
        return true;
      case TraceKey::kTimestamp:
        request_.timestamp = value;
        return std::isfinite(value) || WrongType();
      case TraceKey::kInputLength:
        has_input_length_ = true;
        return SetLength(whole, request_.input_length);
      case TraceKey::kOutputLength:
        return SetLength(whole, request_.output_length);
      default:
        return WrongType();
    }
  }
  bool SetLength(std::optional<uint64_t> whole, int64_t& length) {
    if (!whole || *whole > kLengthMax) return WrongType();
    length = static_cast<int64_t>(*whole);
    return true;
  }
  bool AddId(uint64_t id) {
    if (key_ == TraceKey::kHashIds) {
      request_.hash_ids.push_back(id);
      return true;
    }
    if (id > kTokenIdMax) return WrongType();
    request_.token_ids.push_back(static_cast<TokenId>(id));
    return true;
  }

  absl::Status status_;
  TraceRequest request_;
  std::optional<std::string> prompt_;
  bool has_hash_ids_ = false, has_token_ids_ = false, has_input_length_ = false;
  // `depth_`: number of JSON objects and arrays around the current value. `ids_depth_`: value of
  // `depth_` for the elements of the latest array of ids.
  int depth_ = 0, ids_depth_ = 0;
  TraceKey key_ = TraceKey::kOther;
  std::string name_;     // name of the current JSON key in the log
  bool in_ids_ = false;  // true between the start and the end of an array of ids
};

struct ParsedLine {
  TraceForm form = TraceForm::kHashIds;
  TraceRequest request;
};

absl::StatusOr<ParsedLine> ParseLine(std::string_view text, const TraceTokenizer& tokenizer) {
  if (text.size() > kJsonLineBytesMax) {
    return InvalidArgument("the line has {} bytes; the maximum is {}", text.size(),
                           kJsonLineBytesMax);
  }
  // Refuse a line with a NUL byte, because the JSON library would ignore the text after this byte.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument("not valid JSON: error at byte {}", nul + 1);
  }
  TraceLine line;
  if (!json::sax_parse(text, &line)) {
    if (line.status().ok()) return InvalidArgument("not valid JSON");
    return line.status();
  }
  ParsedLine parsed{.request = std::move(line.request())};
  TraceRequest& request = parsed.request;
  if (line.has_hash_ids()) {
    request.token_ids.clear();
    return parsed;
  }
  parsed.form = TraceForm::kTokenIds;
  if (!line.has_token_ids()) {
    if (!line.prompt()) {
      return InvalidArgument(
          "the line has none of hash_ids, token_ids, prompt_token_ids, prompt and text");
    }
    if (!tokenizer) {
      return InvalidArgument("prompt is a text, which needs --tokenizer DIR");
    }
    INCIPIT_ASSIGN_OR_RETURN(request.token_ids, tokenizer(*line.prompt()));
  }
  if (!line.has_input_length()) {
    request.input_length = static_cast<int64_t>(request.token_ids.size());
  }
  return parsed;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::string_view FormName(TraceForm form) {
  return form == TraceForm::kHashIds ? "hash ids" : "tokens";
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(std::FILE* in, const std::string& name,
                                const TraceTokenizer& tokenizer) {
  Trace trace;
  LineReader reader(in);
  size_t num_ids = 0, line_number = 0, first_line = 0;
  while (const auto line = reader.Next()) {
    ++line_number;
    if (IsBlank(*line)) continue;
    const std::string position = fmt::format("{}:{}", name, line_number);
    auto parsed = ParseLine(*line, tokenizer);
    if (!parsed.ok()) return Annotate(parsed.status(), position);
    if (trace.requests.empty()) {
      trace.form = parsed->form;
      first_line = line_number;
    }
    if (parsed->form != trace.form) {
      return InvalidArgument(
          "{}: the prompt consists of {}, but the prompt in line {} consists of {}", position,
          FormName(parsed->form), first_line, FormName(trace.form));
    }
    num_ids += parsed->request.hash_ids.size() + parsed->request.token_ids.size();
    if (trace.requests.size() == kTraceRequestsMax || num_ids > kTraceIdsMax) {
      return InvalidArgument("{}: the log has more than the maximum of {} requests or {} ids",
                             position, kTraceRequestsMax, kTraceIdsMax);
    }
    parsed->request.line = static_cast<int64_t>(line_number);
    trace.requests.push_back(std::move(parsed->request));
  }
  if (std::ferror(in) != 0) return Internal("cannot read {}: {}", name, std::strerror(errno));
  if (trace.requests.empty()) return InvalidArgument("{} has no request", name);
  return trace;
}

absl::StatusOr<Trace> ReadTraceFile(const std::string& path, const TraceTokenizer& tokenizer) {
  if (path == "-") return ReadTrace(stdin, "stdin", tokenizer);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return NotFound("cannot open {}: {}", path, std::strerror(errno));
  return ReadTrace(file.get(), path, tokenizer);
}

}  // namespace incipit
