#include "text/tokenizer/normalizer.h"

#include <utility>

#include "base/status.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/text_pattern.h"
#include "text/unicode/case_mapping.h"
#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {

NormalizedText NormalizedText::Of(std::string_view text, bool with_origins) {
  NormalizedText normalized{.text = std::string(text), .origins = {}};
  if (!with_origins) return normalized;
  normalized.origins.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t length = Utf8Length(text[position]);
    normalized.origins.insert(normalized.origins.end(), length, static_cast<uint32_t>(position));
    position += length;
  }
  return normalized;
}

class NormalizedText::Rewriter {
 public:
  explicit Rewriter(NormalizedText& source) : source_(source) {
    result_.text.reserve(source.text.size());
    result_.origins.reserve(source.origins.size());
  }

  void Keep(size_t begin, size_t end) {
    result_.text.append(source_.text, begin, end - begin);
    if (source_.origins.empty()) return;
    result_.origins.insert(result_.origins.end(),
                           source_.origins.begin() + static_cast<ptrdiff_t>(begin),
                           source_.origins.begin() + static_cast<ptrdiff_t>(end));
  }

  // Appends `text` to the result. `text` replaces the character at the byte offset `position` of
  // the original text.
  void Put(std::string_view text, size_t position) {
    result_.text += text;
    if (source_.origins.empty()) return;
    result_.origins.insert(result_.origins.end(), text.size(), source_.origins[position]);
  }

  void Finish() { source_ = std::move(result_); }

 private:
  NormalizedText& source_;
  NormalizedText result_;
};

namespace {

using NormalizerPointer = std::unique_ptr<const Normalizer>;

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPointer> steps) : steps_(std::move(steps)) {}
  absl::Status Apply(NormalizedText& text) const override {
    for (const NormalizerPointer& step : steps_) INCIPIT_RETURN_IF_ERROR(step->Apply(text));
    return absl::OkStatus();
  }

 private:
  std::vector<NormalizerPointer> steps_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Apply(NormalizedText& text) const override {
    if (text.text.empty()) return absl::OkStatus();
    NormalizedText::Rewriter rewriter(text);
    rewriter.Put(prefix_, 0);
    rewriter.Keep(0, text.text.size());
    rewriter.Finish();
    return absl::OkStatus();
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(NormalizedText& text) const override {
    if (text.text.empty()) return absl::OkStatus();
    NormalizedText::Rewriter rewriter(text);
    INCIPIT_RETURN_IF_ERROR(pattern_.FindAll(text.text, [&](const Span& span) {
      if (span.is_match) {
        rewriter.Put(content_, span.end > 0 ? span.end - 1 : 0);
      } else {
        rewriter.Keep(span.begin, span.end);
      }
      return absl::OkStatus();
    }));
    rewriter.Finish();
    return absl::OkStatus();
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

// Converts text to the Unicode normal form `kForm`. All objects for the same form share their
// tables.
template <NormalForm kForm>
class UnicodeForm : public Normalizer {
 public:
  absl::Status Apply(NormalizedText& text) const override {
    NormalizedText::Rewriter rewriter(text);
    normalization_.Apply(text.text, [&](size_t begin, size_t end, std::string_view part) {
      if (part.data() == text.text.data() + begin) {
        rewriter.Keep(begin, end);
      } else {
        rewriter.Put(part, begin);
      }
    });
    rewriter.Finish();
    return absl::OkStatus();
  }
  // NFC replaces at most 3 bytes by one byte, for example the Kelvin sign by K. 4 is a safe upper
  // bound.
  std::optional<size_t> ShrinksBy() const override {
    return kForm == NormalForm::kNfc ? std::optional<size_t>(4) : std::nullopt;
  }

 private:
  static const Normalization& Tables() {
    static const auto& tables = *new Normalization(kForm);
    return tables;
  }

  const Normalization& normalization_ = Tables();
};

// A normalizer that replaces each character by the text that Map(character, text) appends to
// `text`; this text may be empty.
template <void (*Map)(char32_t character, std::string& text)>
class EachCharacter : public Normalizer {
 public:
  absl::Status Apply(NormalizedText& text) const override {
    NormalizedText::Rewriter rewriter(text);
    std::string mapped;
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      mapped.clear();
      Map(NextCodePoint(text.text, position), mapped);
      rewriter.Put(mapped, begin);
    }
    rewriter.Finish();
    return absl::OkStatus();
  }
};

void AppendBytesOf(char32_t character, std::string& text) {
  std::string bytes;
  AppendUtf8(character, bytes);
  AppendByteCharacters(bytes, text);
}

// Normalizes one character in the same way as the normalizer Nmt of Hugging Face tokenizers.
// Removes control characters, and replaces line breaks, tabs and special blanks by spaces.
void AppendForTranslation(char32_t c, std::string& text) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return;
  }
  const bool is_blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  AppendUtf8(is_blank ? U' ' : c, text);
}

class StripAccents : public Normalizer {
 public:
  StripAccents() { marks_.Assign(CombiningMarks(), 1); }
  absl::Status Apply(NormalizedText& text) const override {
    NormalizedText::Rewriter rewriter(text);
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      if (marks_[NextCodePoint(text.text, position)] == 0) rewriter.Keep(begin, position);
    }
    rewriter.Finish();
    return absl::OkStatus();
  }

 private:
  CodePointMap marks_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  absl::Status Apply(NormalizedText& text) const override {
    const std::string_view whole = text.text;
    size_t begin = 0, end = whole.size();
    for (size_t next = begin; left_ && begin < end; begin = next) {
      if (!IsWhitespace(NextCodePoint(whole, next))) break;
    }
    while (right_ && end > begin) {
      const size_t last = PreviousCharacter(whole, end);
      if (size_t position = last; !IsWhitespace(NextCodePoint(whole, position))) break;
      end = last;
    }
    NormalizedText::Rewriter rewriter(text);
    rewriter.Keep(begin, end);
    rewriter.Finish();
    return absl::OkStatus();
  }

 private:
  bool left_, right_;
};

absl::StatusOr<NormalizerPointer> CreateSequence(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* array, fields.Array("normalizers"));
  std::vector<NormalizerPointer> steps;
  for (size_t i = 0; i < array->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(
        const JsonFields step,
        JsonFields::Of((*array)[i], fmt::format("{}[{}]", fields.PathOf("normalizers"), i)));
    INCIPIT_ASSIGN_OR_RETURN(NormalizerPointer normalizer, CreateNormalizer(step));
    steps.push_back(std::move(normalizer));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

absl::StatusOr<NormalizerPointer> CreateReplace(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::Create(fields));
  INCIPIT_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}

}  // namespace

absl::StatusOr<NormalizerPointer> CreateNormalizer(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type == "Sequence") return CreateSequence(fields);
  if (type == "Replace") return CreateReplace(fields);
  if (type == "Prepend") {
    INCIPIT_ASSIGN_OR_RETURN(std::string prefix, fields.String("prepend"));
    return std::make_unique<Prepend>(std::move(prefix));
  }
  if (type == "Strip") {
    INCIPIT_ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left", true));
    INCIPIT_ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right", true));
    return std::make_unique<Strip>(left, right);
  }
  if (type == "NFC") return std::make_unique<UnicodeForm<NormalForm::kNfc>>();
  if (type == "NFD") return std::make_unique<UnicodeForm<NormalForm::kNfd>>();
  if (type == "NFKC") return std::make_unique<UnicodeForm<NormalForm::kNfkc>>();
  if (type == "NFKD") return std::make_unique<UnicodeForm<NormalForm::kNfkd>>();
  if (type == "Lowercase") return std::make_unique<EachCharacter<AppendLowercase>>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "ByteLevel") return std::make_unique<EachCharacter<AppendBytesOf>>();
  if (type == "Nmt") return std::make_unique<EachCharacter<AppendForTranslation>>();
  return Unimplemented("the field {} has the unsupported value {}", fields.PathOf("type"), type);
}

}  // namespace incipit
