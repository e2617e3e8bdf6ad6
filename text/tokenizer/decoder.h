// Decodes the texts of tokens to the output text, one token at a time. A decoder is a sequence of
// steps, which tokenizer.json lists.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Receives a list of tokens as text. One token may arrive in several calls of Text(), each with
// whole characters.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Text(std::string_view text) = 0;
  virtual void EndToken() = 0;
  virtual void EndList() = 0;

  // Receives one whole token, like a call of Text() and a call of EndToken().
  virtual void Token(std::string_view text) {
    Text(text);
    EndToken();
  }
};

// What a step of detokenization (token ids to text) must know before the first token of a list.
struct DecodeStart {
  // True if the list of tokens continues an output that already has tokens.
  bool is_continued = false;
  // True if an earlier step of detokenization joins all tokens of the output into one token.
  bool is_joined = false;
};

// One step of a decoder, such as the replacement of a string. Immutable. Begin() returns an object
// with the state for one list of tokens.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Returns an object that applies this decoding step to one list of tokens. The object passes text
  // to `next` as soon as later tokens cannot change the text.
  virtual std::unique_ptr<TokenSink> Begin(DecodeStart start, TokenSink& next) const = 0;
  // Returns true if the step joins all tokens of a list into one token.
  virtual bool joins() const { return false; }
};

// Decodes one list of tokens by all steps of a decoder.
class TokenDecoding {
 public:
  TokenDecoding(const std::vector<std::unique_ptr<const DecoderStep>>& steps, bool is_continued);
  ~TokenDecoding();

  void Add(std::string_view token);
  // Ends the list of tokens. The next call of Take() returns all remaining text.
  void Finish();
  // Returns the decoded text since the previous call of Take(), except text that a later token can
  // change.
  std::string Take();

 private:
  class Collector;
  std::unique_ptr<Collector> collector_;
  // Objects that apply the decoding steps to the list of tokens, from the last step to the first
  // step.
  std::vector<std::unique_ptr<TokenSink>> stages_;
};

// The decoder of a tokenizer. Immutable.
struct TokenDecoder {
  std::vector<std::unique_ptr<const DecoderStep>> steps;
  // True if the decoder has a step of the type ByteLevel (`is_byte_level`) or ByteFallback
  // (`has_byte_fallback`).
  bool is_byte_level = false, has_byte_fallback = false;
};

// Creates a decoder from `fields`, the object `decoder` of a tokenizer.json. If `fields` is null,
// the decoder inserts spaces between tokens. Returns UNIMPLEMENTED for an unsupported type of step.
absl::StatusOr<TokenDecoder> CreateTokenDecoder(const JsonFields* fields);

// Returns the byte that the text of a token names, such as 10 for `<0x0A>`. Returns -1 if `token`
// does not have this form.
int ByteOfFallbackToken(std::string_view token);

}  // namespace incipit
