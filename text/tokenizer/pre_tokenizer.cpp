#include "text/tokenizer/pre_tokenizer.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/read_character.h"
#include "text/tokenizer/split_behavior.h"
#include "text/tokenizer/text_pattern.h"
#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

using Steps = std::vector<std::unique_ptr<const PreTokenizer>>;

// The regular expression of GPT-2 that splits a text into words.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  absl::Status Split(const Word& word, WordSink sink) const override {
    const auto emit = [&](const Span& part) { return sink(word.Part(part.begin, part.end)); };
    if (behavior_ == SplitBehavior::kIsolated) {
      const bool is_one_character =
          !word.text.empty() && word.text.size() == Utf8Length(word.text[0]);
      return is_one_character ? sink(word) : pattern_.FindAll(word.text, emit);
    }
    SpanMerger merger(behavior_, emit);
    INCIPIT_RETURN_IF_ERROR(pattern_.FindAll(word.text, [&](const Span& span) {
      return merger.Add(
          {.begin = span.begin, .end = span.end, .is_match = span.is_match != invert_});
    }));
    return merger.Finish();
  }
  bool DropsText() const override { return behavior_ == SplitBehavior::kRemoved; }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits a word at each character of a set. `behavior` determines whether the character is removed,
// becomes a separate part, or is joined with a neighbouring part.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(const CodePointSet& set, SplitBehavior behavior) : behavior_(behavior) {
    matches_.Assign(set, 1);
  }

  absl::Status Split(const Word& word, WordSink sink) const override {
    const auto emit = [&](const Span& part) { return sink(word.Part(part.begin, part.end)); };
    SpanMerger merger(behavior_, emit);
    size_t unmatched = 0;
    for (size_t position = 0; position < word.text.size();) {
      const size_t begin = position;
      if (matches_[NextCodePoint(word.text, position)] == 0) continue;
      if (begin > unmatched) {
        INCIPIT_RETURN_IF_ERROR(merger.Add({.begin = unmatched, .end = begin}));
      }
      INCIPIT_RETURN_IF_ERROR(merger.Add({.begin = begin, .end = position, .is_match = true}));
      unmatched = position;
    }
    if (unmatched < word.text.size()) {
      INCIPIT_RETURN_IF_ERROR(merger.Add({.begin = unmatched, .end = word.text.size()}));
    }
    return merger.Finish();
  }
  bool DropsText() const override { return behavior_ == SplitBehavior::kRemoved; }

 private:
  CodePointMap matches_;
  SplitBehavior behavior_;
};

// Splits a word into runs of word characters (such as letters) and runs of other visible
// characters. Removes blanks.
class WordRuns : public PreTokenizer {
 public:
  WordRuns() {
    kinds_.Assign(WordCharacters(), kWord);
    kinds_.Assign(WhitespaceCharacters(), kBlank);
  }

  absl::Status Split(const Word& word, WordSink sink) const override {
    size_t run = 0;
    uint8_t kind = kBlank;
    for (size_t position = 0; position < word.text.size();) {
      const size_t begin = position;
      const uint8_t next = kinds_[NextCodePoint(word.text, position)];
      if (next == kind) continue;
      if (kind != kBlank) INCIPIT_RETURN_IF_ERROR(sink(word.Part(run, begin)));
      run = begin;
      kind = next;
    }
    return kind == kBlank ? absl::OkStatus() : sink(word.Part(run, word.text.size()));
  }

 private:
  enum Kind : uint8_t { kOther = 0, kWord = 1, kBlank = 2 };
  CodePointMap kinds_;
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  absl::Status Split(const Word& word, WordSink sink) const override {
    size_t position = 0;
    while (position < word.text.size()) {
      const size_t begin = position;
      for (int64_t i = 0; i < length_ && position < word.text.size(); ++i) {
        position += Utf8Length(word.text[position]);
      }
      INCIPIT_RETURN_IF_ERROR(sink(word.Part(begin, position)));
    }
    return absl::OkStatus();
  }

 private:
  int64_t length_;
};

// Adds a space at the start of each word that does not begin with a space.
class PrefixSpace : public PreTokenizer {
 public:
  absl::Status Split(const Word& word, WordSink sink) const override {
    if (word.text.empty() || word.text.starts_with(' ')) return sink(word);
    std::string text = " ";
    text += word.text;
    const size_t first = word.from_first_character;
    return sink({.text = text, .from_first_character = first > 0 ? first + 1 : 0});
  }
  bool DropsText() const override { return false; }
};

class ByteCharacters : public PreTokenizer {
 public:
  absl::Status Split(const Word& word, WordSink sink) const override {
    std::string text;
    AppendByteCharacters(word.text.substr(0, word.from_first_character), text);
    const size_t first = text.size();
    AppendByteCharacters(word.text.substr(word.from_first_character), text);
    return sink({.text = text, .from_first_character = first});
  }
};

// Replaces each space by a visible character such as U+2581. Can also add this character at the
// start of a word.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend : uint8_t { kNever, kFirst, kAlways };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  absl::Status Split(const Word& word, WordSink sink) const override {
    if (word.text.empty()) return absl::OkStatus();
    std::string text;
    text.reserve(word.text.size() + replacement_.size());
    const bool is_marked =
        word.text.starts_with(' ') || word.text.starts_with(std::string_view(replacement_));
    const bool is_first = word.from_first_character > 0;
    if (!is_marked && (prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && is_first))) {
      text = replacement_;
    }
    size_t first = 0;
    for (size_t i = 0; i < word.text.size(); ++i) {
      if (word.text[i] == ' ') {
        text += replacement_;
      } else {
        text += word.text[i];
      }
      if (i + 1 == word.from_first_character) first = text.size();
    }
    const Word marked{.text = text, .from_first_character = first};
    if (!split_) return sink(marked);
    const auto emit = [&](const Span& part) { return sink(marked.Part(part.begin, part.end)); };
    SpanMerger merger(SplitBehavior::kMergedWithNext, emit);
    INCIPIT_RETURN_IF_ERROR(
        FindAllLiteral(replacement_, text, [&](const Span& span) { return merger.Add(span); }));
    return merger.Finish();
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

absl::Status AddMetaspace(const JsonFields& fields, PreTokenization& result) {
  INCIPIT_ASSIGN_OR_RETURN(const char32_t replacement, ReadCharacter(fields, "replacement"));
  INCIPIT_ASSIGN_OR_RETURN(const bool adds_space, fields.Bool("add_prefix_space", true));
  INCIPIT_ASSIGN_OR_RETURN(const auto scheme, fields.OptionalString("prepend_scheme"));
  INCIPIT_ASSIGN_OR_RETURN(const bool split, fields.Bool("split", true));
  Metaspace::Prepend prepend = Metaspace::Prepend::kAlways;
  if (!adds_space || scheme == "never") {
    prepend = Metaspace::Prepend::kNever;
  } else if (scheme == "first") {
    prepend = Metaspace::Prepend::kFirst;
    result.needs_origins = true;
  } else if (scheme.has_value() && scheme != "always") {
    return Unimplemented("the field {} has the unsupported value {}",
                         fields.PathOf("prepend_scheme"), *scheme);
  }
  std::string text;
  AppendUtf8(replacement, text);
  result.steps.push_back(std::make_unique<Metaspace>(std::move(text), prepend, split));
  return absl::OkStatus();
}

absl::Status AddByteLevel(const JsonFields& fields, PreTokenization& result) {
  INCIPIT_ASSIGN_OR_RETURN(const bool adds_space, fields.Bool("add_prefix_space", true));
  INCIPIT_ASSIGN_OR_RETURN(const bool splits, fields.Bool("use_regex", true));
  if (adds_space) result.steps.push_back(std::make_unique<PrefixSpace>());
  if (splits) {
    INCIPIT_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::FromRegex(kByteLevelPattern));
    result.steps.push_back(
        std::make_unique<PatternSplit>(std::move(pattern), SplitBehavior::kIsolated, false));
  }
  result.words_are_bytes = true;
  return absl::OkStatus();
}

absl::Status AddPatternSplit(const JsonFields& fields, PreTokenization& result) {
  INCIPIT_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::Create(fields));
  INCIPIT_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadSplitBehavior(fields, "behavior"));
  INCIPIT_ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
  result.steps.push_back(std::make_unique<PatternSplit>(std::move(pattern), behavior, invert));
  return absl::OkStatus();
}

absl::Status AddSteps(const JsonFields& fields, PreTokenization& result);

absl::Status AddSequence(const JsonFields& fields, PreTokenization& result) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* array, fields.Array("pretokenizers"));
  for (size_t i = 0; i < array->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(
        const JsonFields step,
        JsonFields::Of((*array)[i], fmt::format("{}[{}]", fields.PathOf("pretokenizers"), i)));
    INCIPIT_RETURN_IF_ERROR(AddSteps(step, result));
  }
  return absl::OkStatus();
}

absl::Status AddCharacterSteps(const std::string& type, const JsonFields& fields, Steps& steps) {
  if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    steps.push_back(
        std::make_unique<CharacterSplit>(WhitespaceCharacters(), SplitBehavior::kRemoved));
    if (type == "WhitespaceSplit") return absl::OkStatus();
    steps.push_back(
        std::make_unique<CharacterSplit>(PunctuationCharacters(), SplitBehavior::kIsolated));
  } else if (type == "Punctuation") {
    INCIPIT_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadSplitBehavior(fields, "behavior"));
    steps.push_back(std::make_unique<CharacterSplit>(PunctuationCharacters(), behavior));
  } else if (type == "Digits") {
    INCIPIT_ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits", false));
    steps.push_back(std::make_unique<CharacterSplit>(
        NumericCharacters(), individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    INCIPIT_ASSIGN_OR_RETURN(const char32_t delimiter, ReadCharacter(fields, "delimiter"));
    std::string text;
    AppendUtf8(delimiter, text);
    steps.push_back(std::make_unique<PatternSplit>(TextPattern::FromLiteral(std::move(text)),
                                                   SplitBehavior::kRemoved, false));
  } else if (type == "Whitespace") {
    steps.push_back(std::make_unique<WordRuns>());
  } else if (type == "FixedLength") {
    INCIPIT_ASSIGN_OR_RETURN(const int64_t length,
                             fields.Integer("length", {1, std::numeric_limits<int32_t>::max()}));
    steps.push_back(std::make_unique<FixedLength>(length));
  } else {
    return Unimplemented("the field {} has the unsupported value {}", fields.PathOf("type"), type);
  }
  return absl::OkStatus();
}

absl::Status AddSteps(const JsonFields& fields, PreTokenization& result) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type == "Sequence") return AddSequence(fields, result);
  // If the previous step produces bytes, convert these bytes to characters for the next step. Only
  // the last step may pass bytes to the model.
  if (result.words_are_bytes) AppendByteCharacterStep(result);
  if (type == "ByteLevel") return AddByteLevel(fields, result);
  if (type == "Split") return AddPatternSplit(fields, result);
  if (type == "Metaspace") return AddMetaspace(fields, result);
  return AddCharacterSteps(type, fields, result.steps);
}

using StepIterator = Steps::const_iterator;

absl::Status SplitFrom(StepIterator step, StepIterator end, const Word& word, WordSink sink) {
  if (word.text.empty()) return absl::OkStatus();
  if (step == end) return sink(word);
  return (*step)->Split(word,
                        [&](const Word& part) { return SplitFrom(step + 1, end, part, sink); });
}

}  // namespace

absl::Status PreTokenization::Split(const Word& word, WordSink sink) const {
  return SplitFrom(steps.begin(), steps.end(), word, sink);
}

bool PreTokenization::DropsText() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const auto& step) { return step->DropsText(); });
}

void AppendByteCharacterStep(PreTokenization& pre_tokenization) {
  pre_tokenization.steps.push_back(std::make_unique<ByteCharacters>());
  pre_tokenization.words_are_bytes = false;
}

absl::StatusOr<PreTokenization> CreatePreTokenization(const JsonFields& fields) {
  PreTokenization result;
  INCIPIT_RETURN_IF_ERROR(AddSteps(fields, result));
  return result;
}

}  // namespace incipit
