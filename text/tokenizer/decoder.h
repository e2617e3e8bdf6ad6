// Tokens back to text, one token at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Receives a list of tokens. A token's text may arrive in several pieces; whole characters each.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Text(std::string_view text) = 0;
  virtual void EndToken() = 0;
  virtual void EndList() = 0;

  // A whole token.
  virtual void Token(std::string_view text) {
    Text(text);
    EndToken();
  }
};

// Where the list that a stage receives begins.
struct DecodeStart {
  // Other tokens came before, and are decoded already.
  bool is_continued = false;
  // A stage before this one joins all tokens into one, so that a continued list is a continued
  // token.
  bool is_joined = false;
};

// One step of decoding. Immutable; what it remembers of a list is in the sinks it makes.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Passes what becomes of the tokens it receives to `next`, as early as it is certain.
  virtual std::unique_ptr<TokenSink> Begin(DecodeStart start, TokenSink& next) const = 0;
  virtual bool joins() const { return false; }
};

// One list of tokens on its way through all steps.
class TokenDecoding {
 public:
  TokenDecoding(const std::vector<std::unique_ptr<const DecoderStep>>& steps, bool is_continued);
  ~TokenDecoding();

  void Add(std::string_view token);
  // Ends the list.
  void Finish();
  // Returns the text that became certain since the last call. All of it together is the text of all
  // tokens.
  std::string Take();

 private:
  class Collector;
  std::unique_ptr<Collector> collector_;
  std::vector<std::unique_ptr<TokenSink>> stages_;  // last one first
};

// The decoder of a tokenizer. Immutable.
struct TokenDecoder {
  std::vector<std::unique_ptr<const DecoderStep>> steps;
  // The first step that gives bytes their meaning, for a token's own bytes.
  bool is_byte_level = false, has_byte_fallback = false;
};

// `fields` is the object `decoder`; null where the tokenizer has none, which puts spaces between
// tokens. UNIMPLEMENTED for a type that is not supported.
absl::StatusOr<TokenDecoder> CreateTokenDecoder(const JsonFields* fields);

// The byte of a token such as `<0x0A>`, or -1.
int ByteOfFallbackToken(std::string_view token);

}  // namespace incipit
