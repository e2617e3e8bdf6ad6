// Fuzzes tokenizers. The input is tokenizer.json and, after the first NUL, a text, so that both
// vary. The parser must refuse the file, or the tokenizer must encode and decode the text.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t border = input.find('\0');
  const auto tokenizer = incipit::Tokenizer::Parse(input.substr(0, border));
  if (!tokenizer.ok()) return 0;
  std::string_view text = "A text, it's 12 \xE4\xBD\xA0\n";
  if (border != input.npos) text = input.substr(border + 1);
  const auto ids = (*tokenizer)->Encode(text, {});
  if (!ids.ok()) return 0;
  incipit::Detokenizer detokenizer(**tokenizer, true, false);
  std::string streamed;
  for (const incipit::TokenId id : *ids) {
    INCIPIT_CHECK(id >= 0);
    streamed += detokenizer.Push(id);
  }
  streamed += detokenizer.Flush();
  INCIPIT_CHECK(streamed == (*tokenizer)->Decode(*ids, true));
  return 0;
}
