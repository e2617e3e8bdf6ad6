// Decodes token ids to text while the token ids arrive. The text always has whole characters and
// correct spaces.
#pragma once

#include <memory>
#include <string>

#include "base/types.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

class TokenDecoding;

// Decodes one output. The texts of Push() and Flush() together are equal to Tokenizer::Decode() of
// all ids. If `after_prompt` is set, the output continues a prompt, and the first token keeps its
// leading space. Decode() of the output alone would remove the leading space.
class Detokenizer {
 public:
  // REQUIRES: `tokenizer` outlives the detokenizer.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool after_prompt);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  // Returns the text that no later token can change: whole UTF-8 characters, possibly none.
  std::string Push(TokenId id);
  // Returns the text held back and ends the output. An incomplete character becomes U+FFFD.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<TokenDecoding> decoding_;
};

}  // namespace incipit
