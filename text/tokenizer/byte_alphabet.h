// The printable characters that stand for the 256 bytes in the vocabularies of byte-level BPE
// (Radford et al., "Language Models are Unsupervised Multitask Learners"): printable Latin-1 stands
// for itself, every other byte for the next code point from U+0100 on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace incipit {

void AppendByteCharacters(std::string_view bytes, std::string& text);

// The bytes that a token stands for; nothing if one of its characters stands for none.
// REQUIRES: valid UTF-8.
std::optional<std::string> BytesOfCharacters(std::string_view token);

}  // namespace incipit
