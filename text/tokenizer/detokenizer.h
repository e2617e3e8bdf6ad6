// Decodes token ids to text during generation. Returns only whole UTF-8 characters.
#pragma once

#include <memory>
#include <string>

#include "base/types.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

class TokenDecoding;

// Decodes the token ids of one output, one at a time, to the same text as Tokenizer::Decode().
// Exception: if the output continues a prompt (`after_prompt`), the first token keeps its leading
// space.
class Detokenizer {
 public:
  // REQUIRES: `tokenizer` outlives the detokenizer.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool after_prompt);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  // Adds the token `id`. Returns the new text that no later token can change. The text consists of
  // whole UTF-8 characters and may be empty.
  std::string Push(TokenId id);
  // Ends the output. Returns the text that Push() held back. U+FFFD replaces an incomplete
  // character.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<TokenDecoding> decoding_;
};

}  // namespace incipit
