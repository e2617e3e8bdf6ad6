// Writes zip archives without compression.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace incipit {

struct ZipFile {
  std::string name;  // path of the file in the archive, in UTF-8
  std::string contents;
};

// Returns a zip archive that contains `files` without compression. REQUIRES: the archive and each
// file have less than 2^32 bytes. Each name has less than 2^16 bytes, and there are less than 2^16
// files.
std::string ZipOf(std::span<const ZipFile> files);

// Returns the CRC-32 of `bytes` with the polynomial 0xEDB88320, which the zip format uses.
uint32_t Crc32(std::string_view bytes);

}  // namespace incipit
