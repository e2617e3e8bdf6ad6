// Decodes the texts of tokens to the output text, one token at a time. A decoder is a sequence of
// steps, which tokenizer.json defines.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Receives a list of tokens, each as text. The text of one token may arrive in several calls of
// Text(), each with whole characters.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Text(std::string_view text) = 0;
  virtual void EndToken() = 0;
  virtual void EndList() = 0;

  // Receives one whole token. Has the same effect as Text() and then EndToken().
  virtual void Token(std::string_view text) {
    Text(text);
    EndToken();
  }
};

// Describes the start of a list of tokens, for one decoding step.
struct DecodeStart {
  // True if other tokens of the same output come before the list.
  bool is_continued = false;
  // True if an earlier step joins all tokens of the output into one token.
  bool is_joined = false;
};

// One step of a decoder, such as the replacement of a string. Immutable. The object that Begin()
// returns holds the state for one list of tokens.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Returns an object that applies this step to one list of tokens. The object passes text to
  // `next` as soon as no later token can change the text.
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
  // Returns the decoded text since the previous call of Take(). Text that a later token can still
  // change is returned by a later call.
  std::string Take();

 private:
  class Collector;
  std::unique_ptr<Collector> collector_;
  // Objects that apply the decoding steps to the list of tokens. The object of the last step is
  // first.
  std::vector<std::unique_ptr<TokenSink>> stages_;
};

// The decoder of a tokenizer. Immutable.
struct TokenDecoder {
  std::vector<std::unique_ptr<const DecoderStep>> steps;
  // is_byte_level is true if the decoder has a step of the type ByteLevel. has_byte_fallback is
  // true if the decoder has a step of the type ByteFallback.
  bool is_byte_level = false, has_byte_fallback = false;
};

// Creates the decoder from `fields`, the object `decoder` of a tokenizer.json. If `fields` is null,
// the decoder only inserts a space between tokens. Returns UNIMPLEMENTED for an unsupported type of
// step.
absl::StatusOr<TokenDecoder> CreateTokenDecoder(const JsonFields* fields);

// Returns the byte of a byte token: 10 for the text `<0x0A>`. Returns -1 if `token` is not the text
// of a byte token.
int ByteOfFallbackToken(std::string_view token);

}  // namespace incipit
