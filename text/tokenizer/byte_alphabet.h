// The byte alphabet of byte-level BPE vocabularies (Radford et al., "Language Models are
// Unsupervised Multitask Learners"): one printable character for each of the 256 bytes. A byte that
// is a printable Latin-1 character stands for itself. For the other bytes, the alphabet uses the
// characters from U+0100 on, in ascending order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace incipit {

void AppendByteCharacters(std::string_view bytes, std::string& text);

// Converts `token`, a string in the byte alphabet, to bytes. Returns nothing if a character is not
// in the byte alphabet. REQUIRES: `token` is valid UTF-8.
std::optional<std::string> BytesOfCharacters(std::string_view token);

}  // namespace incipit
