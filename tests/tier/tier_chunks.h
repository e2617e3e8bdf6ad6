// Chunks for tests of tiers, and a directory that is removed at the end of a test.
#pragma once

#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/random.h"
#include "kvcache/tiers/chunk.h"
#include "tier/segments/record.h"

namespace incipit {

// A record of this shape has 3 pages.
inline constexpr ChunkShape kTestShape = {
    .block_size = 4, .blocks_per_chunk = 2, .block_bytes = 4096};

inline BlockHash TestKey(uint64_t sequence, uint64_t index) {
  BlockHash key;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t bits = RandomBits(sequence, i, index);
    std::memcpy(key.bytes.data() + 8 * i, &bits, sizeof(bits));
  }
  return key;
}

// Chunk number `index` of a sequence. Owns the tokens.
struct TestChunk {
  TestChunk(uint64_t sequence, uint64_t index, const ChunkShape& shape = kTestShape)
      : tokens(static_cast<size_t>(shape.num_tokens())) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>(RandomBits(sequence, 9, 1000 * index + i) % 50'000);
    }
    identity.key = TestKey(sequence, index + 1);
    identity.parent = TestKey(sequence, index);
    identity.first_token = static_cast<int64_t>(index) * shape.num_tokens();
    identity.namespace_digest.fill(7);
    identity.tenant = 11;
    identity.tokens = tokens;
  }
  TestChunk(const TestChunk& other) : tokens(other.tokens), identity(other.identity) {
    identity.tokens = tokens;
  }
  TestChunk& operator=(const TestChunk&) = delete;

  std::vector<TokenId> tokens;
  ChunkIdentity identity;
};

// Fills `payload` with bytes that depend on `key` and on `version`.
inline void FillPayload(const BlockHash& key, uint64_t version, std::span<std::byte> payload) {
  for (size_t i = 0; i + 8 <= payload.size(); i += 8) {
    const uint64_t bits = (key.prefix() + version) * 0x9E3779B97F4A7C15 + i;
    std::memcpy(payload.data() + i, &bits, sizeof(bits));
  }
}
inline bool HasPayload(const BlockHash& key, uint64_t version, std::span<const std::byte> bytes) {
  std::vector<std::byte> wanted(bytes.size());
  FillPayload(key, version, wanted);
  return std::memcmp(wanted.data(), bytes.data(), bytes.size()) == 0;
}

// A private directory below the directory for temporary files.
class TestDirectory {
 public:
  TestDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "tier_test_XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~TestDirectory() {
    // A thread of another tier may still run, and may create a file in the folder at the same time.
    std::error_code error;
    do {
      std::filesystem::remove_all(path_, error);
    } while (error == std::errc::directory_not_empty);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const { return path_; }

  // Returns the files of segments, sorted by name.
  std::vector<std::filesystem::path> Segments() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() == ".segment") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  std::string path_;
};

}  // namespace incipit
