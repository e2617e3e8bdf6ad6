// A folder of a disk cache for the tests of `incipit cache`.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/cache/progress.h"
#include "tests/tier/tier_harness.h"
#include "tier/segments/cache_folder.h"

namespace incipit {

class CacheFolderTest : public testing::Test {
 protected:
  static constexpr uint64_t kRecordBytes = 3 * kPageBytes;
  static constexpr int64_t kNow = 1'000'100;  // 100 s after the chunks were stored

  // Stores the first `count` chunks of a sequence, and stops the tier. A segment has 16 records.
  void Fill(uint64_t sequence, uint64_t count) {
    h_.Start();
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(h_.Store(TestChunk(sequence, i)));
    h_.tier.reset();
  }
  const std::string& path() const { return h_.directory.path(); }
  CacheFolder Folder() const { return *CacheFolder::Open(path()); }
  // Changes one byte of segment number `i` of the folder.
  void Damage(size_t i, uint64_t offset) const {
    std::fstream file(h_.directory.Segments().at(i),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 8);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  void DamageRecord(size_t i, uint64_t index, uint64_t offset = 5000) const {
    Damage(i, kPageBytes + index * kRecordBytes + offset);
  }
  // Overwrites random parts of random segments with random bytes.
  template <typename Random>
  void OverwriteRandomly(Random& random) const {
    const auto segments = h_.directory.Segments();
    std::string bytes(1 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto& segment = segments[random() % segments.size()];
    const uint64_t size = std::filesystem::file_size(segment);
    const uint64_t end = size > bytes.size() ? size - bytes.size() : 1;
    std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(random() % (random() % 3 == 0 ? 200 : end)));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (random() % 8 == 0) {
      std::filesystem::resize_file(segment, random() % (TierHarness::kSegmentBytes + 1));
    }
  }
  static std::string Contents(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  TierHarness h_;
  Progress progress_{"test"};
};

}  // namespace incipit
