// Tests the file of the uses of chunks, and what a restart keeps.
#include "tier/chunk_uses.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

namespace fs = std::filesystem;

Fingerprint TestFingerprint() {
  Fingerprint fingerprint;
  fingerprint.fill(0xab);
  return fingerprint;
}

TEST(ChunkUsesFileTest, ReturnsTheUses) {
  const std::vector<ChunkUses> uses = {{5, 7, 0}, {~uint64_t{0}, 1, 1}};
  EXPECT_EQ(DecodeUses(TestFingerprint(), EncodeUses(TestFingerprint(), uses)), uses);
  EXPECT_EQ(DecodeUses(TestFingerprint(), EncodeUses(TestFingerprint(), {})),
            std::vector<ChunkUses>());
}

TEST(ChunkUsesFileTest, RejectsEveryCorruptByteAndEveryLength) {
  const std::string contents =
      EncodeUses(TestFingerprint(), std::vector<ChunkUses>{{5, 7, 0}, {6, 1, 1}});
  for (size_t i = 0; i < contents.size(); ++i) {
    std::string corrupt = contents;
    corrupt[i] ^= 4;
    EXPECT_FALSE(DecodeUses(TestFingerprint(), corrupt)) << i;
    EXPECT_FALSE(DecodeUses(TestFingerprint(), contents.substr(0, i))) << i;
  }
  EXPECT_FALSE(DecodeUses(TestFingerprint(), contents + "x"));
  EXPECT_FALSE(DecodeUses(Fingerprint{}, contents));
}

class ChunkUsesTest : public testing::Test {
 protected:
  std::string UsesPath() const {
    return h_.directory.path() + "/" + UsesName(h_.options.fingerprint);
  }
  // Returns the uses that the last clean end has written.
  std::vector<ChunkUses> Written() const {
    std::ifstream file(UsesPath(), std::ios::binary);
    const std::string contents((std::istreambuf_iterator<char>(file)),
                               std::istreambuf_iterator<char>());
    return DecodeUses(h_.options.fingerprint, contents).value_or(std::vector<ChunkUses>());
  }
  void StoreOthers(int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(h_.Store(TestChunk(next_++, 0)));
  }
  // Stores `hot_` and `cold_` in segment 1. Loads `hot_` when segment 6 is the newest.
  void StoreHotAndCold() {
    h_.Start();
    ASSERT_TRUE(h_.Store(hot_) && h_.Store(cold_));
    StoreOthers(80);
    ASSERT_TRUE(h_.Load(hot_));
  }
  // Stores chunks until the segment of `cold_` is reclaimed.
  void ReclaimCold() {
    for (int i = 0; i < 1000 && h_.tier->Has(cold_.identity.key); ++i) StoreOthers(1);
    ASSERT_FALSE(h_.tier->Has(cold_.identity.key));
  }

  TierHarness h_;
  const TestChunk hot_{1, 0}, cold_{2, 0};
  uint64_t next_ = 1'000'000;
};

TEST_F(ChunkUsesTest, ARestartKeepsUsedChunks) {
  StoreHotAndCold();
  h_.Start();
  ReclaimCold();
  EXPECT_TRUE(h_.Load(hot_));
}

TEST_F(ChunkUsesTest, HitsAreCountedAcrossRestartsAndMoves) {
  StoreHotAndCold();
  h_.tier.reset();
  const uint64_t key = hot_.identity.key.prefix();
  EXPECT_EQ(Written(), (std::vector<ChunkUses>{{key, 1, 6}}));
  h_.Start();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h_.Load(hot_));
  ReclaimCold();
  h_.tier.reset();
  // The record was moved to a newer segment, and was not used since.
  EXPECT_EQ(Written(), (std::vector<ChunkUses>{{key, 4, 6}}));
  // Neither the move nor a restart is a use.
  h_.Start();
  StoreOthers(200);
  EXPECT_FALSE(h_.tier->Has(hot_.identity.key));
  h_.tier.reset();
  EXPECT_FALSE(fs::exists(UsesPath()));  // no chunk has uses
}

TEST_F(ChunkUsesTest, AUseWithoutALoadIsNoHit) {
  h_.Start();
  ASSERT_TRUE(h_.Store(hot_));
  StoreOthers(20);
  EXPECT_TRUE(h_.tier->Touch(hot_.identity.key, {}));
  h_.tier.reset();
  EXPECT_EQ(Written(), (std::vector<ChunkUses>{{hot_.identity.key.prefix(), 0, 2}}));
}

TEST_F(ChunkUsesTest, ADamagedFileIsIgnored) {
  StoreHotAndCold();
  h_.tier.reset();
  std::fstream(UsesPath(), std::ios::in | std::ios::out | std::ios::binary).seekp(60).put('x');
  h_.Start();
  EXPECT_TRUE(h_.tier->Has(hot_.identity.key));
  ReclaimCold();
  EXPECT_FALSE(h_.tier->Has(hot_.identity.key));
  h_.tier.reset();
  // The name belongs to a directory, or the file is too large.
  fs::remove(UsesPath());
  fs::create_directory(UsesPath());
  h_.Start();
  h_.tier.reset();
  fs::remove(UsesPath());
  std::ofstream(UsesPath()) << "x";
  fs::resize_file(UsesPath(), kUsesBytesMax + 1);
  h_.Start();
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOn);
}

TEST_F(ChunkUsesTest, ClearRemovesTheFile) {
  h_.Start();
  ASSERT_TRUE(h_.Store(hot_) && h_.Load(hot_));
  h_.Start();
  ASSERT_TRUE(fs::exists(UsesPath()));
  h_.tier->Clear();
  EXPECT_TRUE(h_.WaitFor([&] { return !fs::exists(UsesPath()); }));
}

TEST_F(ChunkUsesTest, ATierThatDoesNotHoldTheLockWritesNoFile) {
  h_.Start();
  ASSERT_TRUE(h_.Store(hot_) && h_.Load(hot_));
  DiskTierOptions options = h_.options;
  auto second = DiskTier::Create(options);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(h_.WaitFor([&] {
    (*second)->Poll();
    return (*second)->tier_state() == TierState::kLocked;
  }));
  second->reset();
  EXPECT_FALSE(fs::exists(UsesPath()));
}

TEST_F(ChunkUsesTest, TheDestructorDoesNotWaitForAHangingDisk) {
  auto faults = std::make_shared<DiskFaults>();
  h_.options.stop_limit = std::chrono::milliseconds(50);
  h_.Start(std::make_unique<FaultyFileSystem>(
      MakePosixFileSystem(h_.directory.path(), IoMethod::kAuto), faults));
  ASSERT_TRUE(h_.Store(hot_) && h_.Load(hot_));
  faults->Hang(true);
  const auto begin = std::chrono::steady_clock::now();
  h_.tier.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  // The writer thread ends before the directory is removed.
  faults->Hang(false);
  const auto end = begin + std::chrono::seconds(20);
  while (!fs::exists(UsesPath()) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(fs::exists(UsesPath()));
}

}  // namespace
}  // namespace incipit
