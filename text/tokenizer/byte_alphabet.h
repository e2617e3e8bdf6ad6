// The byte alphabet of byte-level BPE vocabularies (Radford et al., "Language Models are
// Unsupervised Multitask Learners"): each of the 256 bytes is represented by one printable
// character. A byte that is a printable Latin-1 character is represented by this character. The
// other bytes are represented by the characters from U+0100 on, in ascending order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace incipit {

void AppendByteCharacters(std::string_view bytes, std::string& text);

// Converts `token`, a string in the byte alphabet, to the bytes that its characters represent.
// Returns nothing if a character represents no byte. REQUIRES: `token` is valid UTF-8.
std::optional<std::string> BytesOfCharacters(std::string_view token);

}  // namespace incipit
