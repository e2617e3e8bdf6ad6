#include "transformer/weights_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tests/transformer/safetensors_builder.h"

namespace incipit {
namespace {

namespace fs = std::filesystem;

std::string RandomText(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  for (char& letter : text) {
    seed = seed * 1664525 + 1013904223;
    letter = static_cast<char>(seed >> 24);
  }
  return text;
}

std::vector<BuiltTensor> Tensors() {
  return {{.name = "a", .shape = {3, 5}, .data = RandomText(60, 1)},
          {.name = "b", .shape = {7}, .dtype = "BF16", .data = RandomText(14, 2)},
          {.name = "c", .shape = {2, 2}, .dtype = "F16", .data = RandomText(8, 3)}};
}

class WeightsDigestTest : public testing::Test {
 protected:
  void Write(const std::vector<BuiltTensor>& tensors) const {
    WriteFile(file(), SafetensorsFile(tensors));
  }
  fs::path file() const { return folder_.path() / "model.safetensors"; }
  fs::path cache_file() const { return folder_.path() / "digest"; }

  WeightsDigest Digest(int32_t num_threads = 2) const {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return DigestWeights(*checkpoint, num_threads);
  }
  WeightsDigest DigestOf(const std::vector<BuiltTensor>& tensors) const {
    Write(tensors);
    return Digest();
  }
  // Returns the digest from the cache file or the weights, `age_ns` after the last change.
  CachedWeightsDigest Cached(int64_t age_ns = kUnchangedNs) const {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    const int64_t changed_ns = checkpoint->files().front().changed_ns;
    return DigestWeightsCached(*checkpoint,
                               {.cache_file = cache_file(), .now_ns = changed_ns + age_ns});
  }

  const TemporaryFolder folder_;
};

TEST_F(WeightsDigestTest, EveryBitOfEveryTensorChangesTheDigest) {
  const std::vector<BuiltTensor> tensors = Tensors();
  std::set<WeightsDigest> digests = {DigestOf(tensors)};
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t bit = 0; bit < 8 * tensors[t].data.size(); ++bit) {
      std::vector<BuiltTensor> changed = tensors;
      changed[t].data[bit / 8] ^= static_cast<char>(1 << bit % 8);
      EXPECT_TRUE(digests.insert(DigestOf(changed)).second) << changed[t].name << " bit " << bit;
    }
  }
  EXPECT_EQ(digests.size(), 1u + 8 * (60 + 14 + 8));
}

TEST_F(WeightsDigestTest, NamesShapesAndTypesChangeTheDigest) {
  std::set<WeightsDigest> digests = {DigestOf(Tensors())};
  std::vector<BuiltTensor> renamed = Tensors(), reshaped = Tensors(), retyped = Tensors(),
                           swapped = Tensors(), shorter = Tensors();
  renamed[0].name = "aa";
  reshaped[0].shape = {5, 3};
  retyped[1].dtype = "F16";
  std::swap(swapped[0].name, swapped[1].name);
  shorter.pop_back();
  for (const auto& tensors : {renamed, reshaped, retyped, swapped, shorter}) {
    EXPECT_TRUE(digests.insert(DigestOf(tensors)).second);
  }
}

TEST_F(WeightsDigestTest, TheFilesOfTheTensorsDoNotChangeTheDigest) {
  const std::vector<BuiltTensor> tensors = Tensors();
  const WeightsDigest digest = DigestOf(tensors);
  fs::remove(file());
  WriteFile(folder_.path() / "x.safetensors", SafetensorsFile({tensors[2], tensors[0]}));
  WriteFile(folder_.path() / "y.safetensors", SafetensorsFile({tensors[1]}));
  WriteFile(
      folder_.path() / "model.safetensors.index.json",
      R"({"weight_map": {"a": "x.safetensors", "b": "y.safetensors", "c": "x.safetensors"}})");
  EXPECT_EQ(Digest(), digest);
}

// The tensor is longer than two pieces of 64 MiB. The test changes one bit at the borders of
// pieces.
TEST_F(WeightsDigestTest, LargeTensorsAreHashedInPiecesByAnyNumberOfThreads) {
  constexpr size_t kPiece = size_t{64} << 20, kBytes = 2 * kPiece + 4096;
  std::vector<BuiltTensor> tensors = Tensors();
  tensors.push_back({.name = "large",
                     .shape = {static_cast<int64_t>(kBytes / 4)},
                     .data = std::string(kBytes, '\1')});
  Write(tensors);
  const WeightsDigest digest = Digest();
  for (const int32_t threads : {1, 8}) EXPECT_EQ(Digest(threads), digest);
  const auto data_begin = static_cast<std::streamoff>(fs::file_size(file()) - kBytes);
  for (const size_t at : {size_t{0}, kPiece - 1, kPiece, 2 * kPiece, kBytes - 1}) {
    const auto flip = [&] {
      std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(data_begin + static_cast<std::streamoff>(at));
      const char changed = static_cast<char>(stream.get() ^ 0x40);
      stream.seekp(data_begin + static_cast<std::streamoff>(at));
      stream.put(changed);
    };
    flip();
    EXPECT_NE(Digest(), digest) << at;
    flip();
  }
  EXPECT_EQ(Digest(), digest);
}

TEST_F(WeightsDigestTest, TheCacheHoldsTheDigestUntilTheFileChanges) {
  Write(Tensors());
  const CachedWeightsDigest first = Cached(), second = Cached();
  EXPECT_FALSE(first.is_from_cache);
  EXPECT_TRUE(first.write_status.ok()) << first.write_status;
  EXPECT_TRUE(second.is_from_cache);
  EXPECT_EQ(first.digest, Digest());
  EXPECT_EQ(second.digest, first.digest);

  std::vector<BuiltTensor> changed = Tensors();
  changed[0].data[3] ^= 1;
  const fs::file_time_type before = fs::last_write_time(file());
  Write(changed);
  fs::last_write_time(file(), before);  // only the time of the change of attributes differs
  const CachedWeightsDigest third = Cached();
  EXPECT_FALSE(third.is_from_cache);
  EXPECT_NE(third.digest, first.digest);
  EXPECT_TRUE(Cached().is_from_cache);
}

// Returns the KiB of the mapping of `file` that count as memory of this process.
int64_t ResidentKiB(const fs::path& file) {
  std::ifstream maps("/proc/self/smaps");
  bool is_mapping = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw") != std::string::npos || line.find(" r-") != std::string::npos) {
      is_mapping = line.ends_with(file.string());
    }
    if (is_mapping && line.starts_with("Rss:")) return std::stoll(line.substr(4));
  }
  return -1;
}

TEST_F(WeightsDigestTest, TheDigestReleasesThePagesAlsoIfItIsInTheCacheFile) {
  Write({{.name = "a", .shape = {1 << 18}, .data = RandomText(1 << 20, 1)}});
  for (const bool is_from_cache : {false, true}) {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    ASSERT_TRUE(checkpoint.ok());
    const auto bytes = checkpoint->tensors().begin()->second.bytes;
    EXPECT_GE(std::ranges::count(bytes, std::byte{0}), 0);  // reads every page
    EXPECT_GE(ResidentKiB(file()), 1024);
    const WeightsDigestOptions options = {
        .cache_file = cache_file(),
        .now_ns = checkpoint->files().front().changed_ns + kUnchangedNs};
    EXPECT_EQ(DigestWeightsCached(*checkpoint, options).is_from_cache, is_from_cache);
    EXPECT_LT(ResidentKiB(file()), 64);
  }
}

TEST_F(WeightsDigestTest, EachPropertyOfAFileIsCompared) {
  Write(Tensors());
  Cached();
  const std::string valid = *ReadTextFile(cache_file());
  // Replaces one property and repairs nothing else.
  fs::last_write_time(file(), fs::last_write_time(file()) - std::chrono::hours(1));
  EXPECT_FALSE(Cached().is_from_cache);
  EXPECT_TRUE(Cached().is_from_cache);
  fs::copy_file(file(), folder_.path() / "copy");
  fs::rename(folder_.path() / "copy", file());  // another inode with the same contents
  EXPECT_FALSE(Cached().is_from_cache);
  WriteFile(cache_file(), valid);
  EXPECT_FALSE(Cached().is_from_cache);
}

TEST_F(WeightsDigestTest, ADamagedCacheIsReplaced) {
  Write(Tensors());
  const WeightsDigest digest = Cached().digest;
  const std::string valid = *ReadTextFile(cache_file());
  std::vector<std::string> damaged = {"", "x", valid + "x", valid + valid};
  for (size_t size = 0; size < valid.size(); size += 5) damaged.push_back(valid.substr(0, size));
  for (size_t at = 0; at < valid.size(); ++at) {
    damaged.push_back(valid);
    damaged.back()[at] ^= 1;
  }
  for (const std::string& text : damaged) {
    WriteFile(cache_file(), text);
    const CachedWeightsDigest found = Cached();
    EXPECT_FALSE(found.is_from_cache) << text;
    EXPECT_EQ(found.digest, digest);
    EXPECT_EQ(*ReadTextFile(cache_file()), valid);
  }
}

TEST_F(WeightsDigestTest, AFileThatHasJustChangedIsNotCached) {
  Write(Tensors());
  const CachedWeightsDigest first = Cached(kUnchangedNs - 1);
  EXPECT_TRUE(first.write_status.ok());
  EXPECT_FALSE(fs::exists(cache_file()));
  EXPECT_FALSE(Cached(kUnchangedNs - 1).is_from_cache);
}

TEST_F(WeightsDigestTest, ACacheFileThatCannotBeWrittenIsReported) {
  Write(Tensors());
  fs::create_directories(cache_file());
  const CachedWeightsDigest found = Cached();
  EXPECT_FALSE(found.write_status.ok());
  EXPECT_EQ(found.digest, Digest());
}

}  // namespace
}  // namespace incipit
