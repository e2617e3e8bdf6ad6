// The byte alphabet: 256 printable characters that stand for the 256 bytes in byte-level BPE
// vocabularies (Radford et al., "Language Models are Unsupervised Multitask Learners"). A printable
// Latin-1 character stands for its own byte. The other bytes use the code points from U+0100 on, in
// order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace incipit {

void AppendByteCharacters(std::string_view bytes, std::string& text);

// Returns the bytes for which the characters of `token` stand. Returns nothing if a character
// stands for no byte. REQUIRES: `token` is valid UTF-8.
std::optional<std::string> BytesOfCharacters(std::string_view token);

}  // namespace incipit
