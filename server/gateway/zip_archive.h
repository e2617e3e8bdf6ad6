// Writes zip archives without compression.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace incipit {

struct ZipFile {
  std::string name;  // path in the archive, in UTF-8
  std::string contents;
};

// Returns a zip archive with `files`, stored without compression. REQUIRES: the archive and each
// file have less than 2^32 bytes, each name has less than 2^16 bytes, and the number of files is
// less than 2^16.
std::string ZipOf(std::span<const ZipFile> files);

// Returns the CRC-32 of `bytes`, as zip archives contain it (polynomial 0xEDB88320).
uint32_t Crc32(std::string_view bytes);

}  // namespace incipit
