// Decodes tokens to text, one token at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Receives a list of tokens. The text of a token may arrive in several pieces of whole characters.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Text(std::string_view text) = 0;
  virtual void EndToken() = 0;
  virtual void EndList() = 0;

  // Receives a whole token: the text and then the end of the token.
  virtual void Token(std::string_view text) {
    Text(text);
    EndToken();
  }
};

// The state of a list of tokens when a decoding stage begins.
struct DecodeStart {
  // True if tokens before the list were already decoded.
  bool is_continued = false;
  // True if an earlier stage joins all tokens into one token. If `is_continued` is also true, the
  // list begins inside a token.
  bool is_joined = false;
};

// One step of decoding. Immutable; the sink that Begin() returns holds the state of one list.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Returns a stage that decodes all received tokens. The stage passes text to `next` as soon as no
  // later token can change the text.
  virtual std::unique_ptr<TokenSink> Begin(DecodeStart start, TokenSink& next) const = 0;
  // Returns true if the stage joins all tokens of a list into one token.
  virtual bool joins() const { return false; }
};

// Decodes one list of tokens with all steps of a decoder.
class TokenDecoding {
 public:
  TokenDecoding(const std::vector<std::unique_ptr<const DecoderStep>>& steps, bool is_continued);
  ~TokenDecoding();

  void Add(std::string_view token);
  // Ends the list of tokens. All text that the stages held back is then available to Take().
  void Finish();
  // Returns the text that no later token can change and that no earlier call returned. The texts of
  // all calls together are the text of the list.
  std::string Take();

 private:
  class Collector;
  std::unique_ptr<Collector> collector_;
  // Stages in reverse order: the last stage is first.
  std::vector<std::unique_ptr<TokenSink>> stages_;
};

// The decoder of a tokenizer. Immutable.
struct TokenDecoder {
  std::vector<std::unique_ptr<const DecoderStep>> steps;
  // Flags for Tokenizer::TokenBytes(): true if `steps` has a ByteLevel step or a ByteFallback step.
  bool is_byte_level = false, has_byte_fallback = false;
};

// Creates the decoder from `fields`, the object `decoder`. If `fields` is null, the decoder puts a
// space between tokens. Returns UNIMPLEMENTED for an unsupported type of step.
absl::StatusOr<TokenDecoder> CreateTokenDecoder(const JsonFields* fields);

// Returns the byte of a token such as `<0x0A>`, or -1 for another token.
int ByteOfFallbackToken(std::string_view token);

}  // namespace incipit
