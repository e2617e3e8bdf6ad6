#include "server/gateway/zip_archive.h"

#include <array>

#include "base/check.h"

namespace incipit {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0u);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

constexpr uint64_t kLocalHeader = 0x04034B50, kCentralHeader = 0x02014B50, kEnd = 0x06054B50;
constexpr uint64_t kVersion = 20;           // version 2.0 of the zip format
constexpr uint64_t kUtf8Names = 1 << 11;    // flag of the zip format: the file names are UTF-8
constexpr uint64_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the earliest date in the zip format
constexpr uint64_t kRegularFile = 0100644;  // Unix file mode: a regular file, rw-r--r--
constexpr uint64_t kMadeOnUnix = 3 << 8;

// Appends the `num_bytes` low bytes of `value` to `out`, the lowest byte first.
void Append(uint64_t value, int num_bytes, std::string& out) {
  for (int i = 0; i < num_bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
}

// Appends the fields that the two headers of `file` have in common. The local header is before the
// file, and the central header is in the directory at the end. `crc` is the CRC-32 of the file.
void AppendCommon(const ZipFile& file, uint32_t crc, std::string& out) {
  Append(kVersion, 2, out);
  Append(kUtf8Names, 2, out);
  Append(0, 2, out);  // compression method: none
  Append(0, 2, out);  // time
  Append(kFirstDay, 2, out);
  Append(crc, 4, out);
  Append(file.contents.size(), 4, out);  // compressed size
  Append(file.contents.size(), 4, out);
  Append(file.name.size(), 2, out);
  Append(0, 2, out);  // size of the extra field: 0 bytes
}

}  // namespace

uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

std::string ZipOf(std::span<const ZipFile> files) {
  std::string out, directory;
  size_t size = 0;
  for (const ZipFile& file : files) size += file.contents.size() + 2 * file.name.size() + 128;
  out.reserve(size);
  for (const ZipFile& file : files) {
    const size_t offset = out.size();
    const uint32_t crc = Crc32(file.contents);
    Append(kLocalHeader, 4, out);
    AppendCommon(file, crc, out);
    out += file.name;
    out += file.contents;
    Append(kCentralHeader, 4, directory);
    Append(kMadeOnUnix | kVersion, 2, directory);
    AppendCommon(file, crc, directory);
    Append(0, 2, directory);  // size of the file's comment: 0 bytes
    Append(0, 2, directory);  // number of the disk that contains the file: 0
    Append(0, 2, directory);  // internal attributes
    Append(kRegularFile << 16, 4, directory);
    Append(offset, 4, directory);
    directory += file.name;
  }
  const size_t offset = out.size();
  out += directory;
  Append(kEnd, 4, out);
  Append(0, 4, out);  // number of this disk, and number of the disk with the directory: both 0
  Append(files.size(), 2, out);
  Append(files.size(), 2, out);
  Append(directory.size(), 4, out);
  Append(offset, 4, out);
  Append(0, 2, out);  // size of the archive's comment: 0 bytes
  INCIPIT_CHECK(out.size() < uint64_t{1} << 32);
  return out;
}

}  // namespace incipit
