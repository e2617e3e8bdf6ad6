// Token ids to text while they arrive, never half a character and never a wrong space.
#pragma once

#include <memory>
#include <string>

#include "base/types.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

class TokenDecoding;

// One answer's text. The pieces of Push and Flush add up to Tokenizer::Decode of all the ids. The
// answer continues a prompt: its first token keeps a leading space that Decode of the answer alone
// would strip, if `after_prompt`.
class Detokenizer {
 public:
  // `tokenizer` outlives it.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool after_prompt);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  // The text that became certain with this token: whole UTF-8 characters, possibly none.
  std::string Push(TokenId id);
  // What was held back: incomplete characters become U+FFFD. Ends the answer.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<TokenDecoding> decoding_;
};

}  // namespace incipit
