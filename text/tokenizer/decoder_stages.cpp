#include "text/tokenizer/decoder_stages.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// Base class of decoding steps that need the whole text of a token. Collects the parts of each
// token, and passes the whole token to Take().
class WholeTokenStage : public TokenSink {
 public:
  explicit WholeTokenStage(TokenSink& next) : next_(next) {}
  void Text(std::string_view text) override { token_ += text; }
  void EndToken() override {
    Take(token_);
    token_.clear();
  }
  void Token(std::string_view text) override {
    if (token_.empty()) return Take(text);
    Text(text);
    EndToken();
  }
  void EndList() override { next_.EndList(); }

 protected:
  virtual void Take(std::string_view token) = 0;
  TokenSink& next_;

 private:
  std::string token_;
};

// Decodes tokens in the byte alphabet (byte_alphabet.h) to bytes. Does not change a token with any
// other character.
class ByteLevelStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void EndList() override {
    std::string text;
    repair_.Flush(text);
    next_.Token(text);
    next_.EndList();
  }

 private:
  void Take(std::string_view token) override {
    std::string text;
    if (const auto bytes = BytesOfCharacters(token)) {
      repair_.Push(*bytes, text);
    } else {
      repair_.Push(token, text);
    }
    if (!text.empty()) next_.Text(text);
  }

  Utf8Repair repair_;
};

// Decodes tokens that name a byte, such as `<0x0A>`. If the bytes of consecutive tokens are valid
// UTF-8, passes the bytes on as text. Otherwise, passes U+FFFD on for each byte.
class ByteFallbackStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void EndList() override {
    EndRun();
    next_.EndList();
  }

 private:
  void Take(std::string_view token) override {
    const int byte = ByteOfFallbackToken(token);
    if (byte >= 0) {
      TakeByte(static_cast<char>(byte));
    } else {
      EndRun();
      next_.Token(token);
    }
  }

  void TakeByte(char byte) {
    run_.push_back(byte);
    while (!is_broken_ && checked_ < run_.size()) {
      const Utf8Step step = NextUtf8Step(std::string_view(run_).substr(checked_));
      if (step.kind == Utf8Step::kIncomplete) break;
      is_broken_ = step.kind == Utf8Step::kInvalid;
      checked_ += step.length;
    }
    if (is_broken_) PassBrokenBytes();
  }

  void PassBrokenBytes() {
    for (size_t i = 0; i < run_.size(); ++i) next_.Token(kReplacementCharacter);
    run_.clear();
  }

  void EndRun() {
    if (checked_ < run_.size()) PassBrokenBytes();
    if (!run_.empty()) next_.Token(run_);
    run_.clear();
    checked_ = 0;
    is_broken_ = false;
  }

  // Bytes of consecutive tokens that each name a byte.
  std::string run_;
  size_t checked_ = 0;  // number of bytes of `run_` that were checked as UTF-8
  bool is_broken_ = false;
};

class FuseStage : public TokenSink {
 public:
  explicit FuseStage(TokenSink& next) : next_(next) {}
  void Text(std::string_view text) override { next_.Text(text); }
  void EndToken() override {}
  void Token(std::string_view text) override { next_.Text(text); }
  void EndList() override {
    next_.EndToken();
    next_.EndList();
  }

 private:
  TokenSink& next_;
};

class ReplaceStage : public WholeTokenStage {
 public:
  ReplaceStage(const TextPattern& pattern, std::string_view content, TokenSink& next)
      : WholeTokenStage(next), pattern_(pattern), content_(content) {}

 private:
  void Take(std::string_view token) override {
    const std::string* literal = pattern_.literal();
    if (literal != nullptr && token.find(*literal) == token.npos) return next_.Token(token);
    std::string text;
    const absl::Status status = pattern_.FindAll(token, [&](const Span& span) {
      if (span.is_match) {
        text += content_;
      } else {
        text += token.substr(span.begin, span.end - span.begin);
      }
      return absl::OkStatus();
    });
    next_.Token(status.ok() ? std::string_view(text) : token);
  }

  const TextPattern& pattern_;
  std::string_view content_;
};

// Removes the character `content` from both ends of every token: at most `start` times at the
// start, and at most `stop` times at the end.
class StripStage : public TokenSink {
 public:
  struct Options {
    std::string content;
    uint64_t start = 0, stop = 0;
  };
  StripStage(const Options& options, bool is_inside_token, TokenSink& next)
      : options_(options), next_(next), to_strip_(is_inside_token ? 0 : options.start) {}

  void Text(std::string_view text) override {
    std::string passed;
    while (!text.empty()) {
      const std::string_view character = text.substr(0, Utf8Length(text[0]));
      text.remove_prefix(character.size());
      Take(character, passed);
    }
    if (!passed.empty()) next_.Text(passed);
  }

  void EndToken() override {
    held_ = 0;
    to_strip_ = options_.start;
    next_.EndToken();
  }
  void EndList() override { next_.EndList(); }

 private:
  void Take(std::string_view character, std::string& passed) {
    if (character != options_.content) {
      for (; held_ > 0; --held_) passed += options_.content;
      to_strip_ = 0;
      passed += character;
    } else if (to_strip_ > 0) {
      --to_strip_;
    } else if (held_ < options_.stop) {
      ++held_;
    } else {
      passed += character;
    }
  }

  const Options& options_;
  TokenSink& next_;
  // Number of characters that may still be removed at the start of the token.
  uint64_t to_strip_;
  // Number of characters that are held back: removed if the token ends now, and passed on if other
  // text of the token follows.
  uint64_t held_ = 0;
};

class MetaspaceStage : public TokenSink {
 public:
  MetaspaceStage(std::string_view replacement, bool drops_first, TokenSink& next)
      : replacement_(replacement), drops_(drops_first), next_(next) {}

  void Text(std::string_view text) override {
    std::string passed;
    while (!text.empty()) {
      const size_t found = text.find(replacement_);
      passed += text.substr(0, found);
      if (found == text.npos) break;
      if (!drops_) passed += ' ';
      text.remove_prefix(found + replacement_.size());
    }
    next_.Text(passed);
  }
  void EndToken() override {
    drops_ = false;
    next_.EndToken();
  }
  void EndList() override { next_.EndList(); }

 private:
  std::string_view replacement_;
  bool drops_;
  TokenSink& next_;
};

// Cleans up English text: removes the space before punctuation marks and before contractions such
// as "n't", and the spaces around a single quotation mark. Also replaces " do not" by " don't".
void CleanUp(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kReplacements) {
    std::string cleaned;
    size_t begin = 0;
    for (size_t found = text.find(from); found != text.npos; found = text.find(from, begin)) {
      cleaned.append(text, begin, found - begin).append(to);
      begin = found + from.size();
    }
    text = cleaned.append(text, begin);
  }
}

class WordPieceStage : public WholeTokenStage {
 public:
  WordPieceStage(std::string_view prefix, bool cleans_up, bool is_first, TokenSink& next)
      : WholeTokenStage(next), prefix_(prefix), cleans_up_(cleans_up), is_first_(is_first) {}

 private:
  void Take(std::string_view token) override {
    std::string text;
    if (!is_first_ && token.starts_with(prefix_)) {
      token.remove_prefix(prefix_.size());
    } else if (!is_first_) {
      text = " ";
    }
    text += token;
    if (cleans_up_) CleanUp(text);
    is_first_ = false;
    next_.Token(text);
  }

  std::string_view prefix_;
  bool cleans_up_, is_first_;
};

// Replaces the suffix that marks the end of a word, such as `</w>`, by a space. Removes the suffix
// from the last token.
class WordSuffixStage : public WholeTokenStage {
 public:
  WordSuffixStage(std::string_view suffix, TokenSink& next)
      : WholeTokenStage(next), suffix_(suffix) {}
  void EndList() override {
    if (held_) Pass("");
    next_.EndList();
  }

 private:
  void Take(std::string_view token) override {
    if (held_) Pass(" ");
    held_.emplace(token);
  }

  void Pass(std::string_view replacement) {
    std::string text;
    const absl::Status status = FindAllLiteral(suffix_, *held_, [&](const Span& span) {
      text += span.is_match ? replacement
                            : std::string_view(*held_).substr(span.begin, span.end - span.begin);
      return absl::OkStatus();
    });
    INCIPIT_CHECK(status.ok());
    next_.Token(text);
  }

  std::string_view suffix_;
  std::optional<std::string> held_;
};

class SpacesBetweenStage : public WholeTokenStage {
 public:
  SpacesBetweenStage(bool is_first, TokenSink& next) : WholeTokenStage(next), is_first_(is_first) {}

 private:
  void Take(std::string_view token) override {
    if (!is_first_) next_.Text(" ");
    next_.Token(token);
    is_first_ = false;
  }
  bool is_first_;
};

template <typename MakeStage>
class Step : public DecoderStep {
 public:
  Step(bool joins, MakeStage make_stage) : joins_(joins), make_stage_(std::move(make_stage)) {}
  std::unique_ptr<TokenSink> Begin(DecodeStart start, TokenSink& next) const override {
    return make_stage_(start, next);
  }
  bool joins() const override { return joins_; }

 private:
  bool joins_;
  MakeStage make_stage_;
};

template <typename MakeStage>
std::unique_ptr<const DecoderStep> MakeStep(MakeStage make_stage, bool joins = false) {
  return std::make_unique<Step<MakeStage>>(joins, std::move(make_stage));
}

bool IsFirst(DecodeStart start) { return !start.is_continued || start.is_joined; }

std::string ToUtf8(char32_t character) {
  std::string text;
  AppendUtf8(character, text);
  return text;
}

}  // namespace

std::unique_ptr<const DecoderStep> ByteLevelStep() {
  return MakeStep(
      [](DecodeStart, TokenSink& next) { return std::make_unique<ByteLevelStage>(next); },
      /*joins=*/true);
}

std::unique_ptr<const DecoderStep> ByteFallbackStep() {
  return MakeStep(
      [](DecodeStart, TokenSink& next) { return std::make_unique<ByteFallbackStage>(next); });
}

std::unique_ptr<const DecoderStep> FuseStep() {
  return MakeStep([](DecodeStart, TokenSink& next) { return std::make_unique<FuseStage>(next); },
                  /*joins=*/true);
}

std::unique_ptr<const DecoderStep> ReplaceStep(TextPattern pattern, std::string content) {
  return MakeStep(
      [pattern = std::move(pattern), content = std::move(content)](DecodeStart, TokenSink& next) {
        return std::make_unique<ReplaceStage>(pattern, content, next);
      });
}

std::unique_ptr<const DecoderStep> StripStep(char32_t content, uint64_t start, uint64_t stop) {
  const StripStage::Options options{.content = ToUtf8(content), .start = start, .stop = stop};
  return MakeStep([options](DecodeStart begin, TokenSink& next) {
    return std::make_unique<StripStage>(options, begin.is_continued && begin.is_joined, next);
  });
}

std::unique_ptr<const DecoderStep> MetaspaceStep(char32_t replacement, bool drops_first) {
  return MakeStep([text = ToUtf8(replacement), drops_first](DecodeStart start, TokenSink& next) {
    return std::make_unique<MetaspaceStage>(text, drops_first && IsFirst(start), next);
  });
}

std::unique_ptr<const DecoderStep> WordPieceStep(std::string prefix, bool cleans_up) {
  return MakeStep([prefix = std::move(prefix), cleans_up](DecodeStart start, TokenSink& next) {
    return std::make_unique<WordPieceStage>(prefix, cleans_up, IsFirst(start), next);
  });
}

std::unique_ptr<const DecoderStep> WordSuffixStep(std::string suffix) {
  return MakeStep([suffix = std::move(suffix)](DecodeStart, TokenSink& next) {
    return std::make_unique<WordSuffixStage>(suffix, next);
  });
}

std::unique_ptr<const DecoderStep> SpacesBetweenStep() {
  return MakeStep([](DecodeStart start, TokenSink& next) {
    return std::make_unique<SpacesBetweenStage>(IsFirst(start), next);
  });
}

}  // namespace incipit
