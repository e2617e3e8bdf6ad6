#include "cli/analysis/replay_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "cli/analysis/analyze_reuse.h"
#include "cli/analysis/offline_optimum.h"
#include "tests/cli/analysis/random_block_log.h"

namespace incipit {
namespace {

using Kind = EvictionPolicyKind;
constexpr std::array kKinds = {Kind::kLru, Kind::kLfuAging, Kind::kLru2,
                               Kind::kArc, Kind::kS3Fifo,   Kind::kAdaptive};

// Returns a log of `prompts`, in which each character is one block.
std::unique_ptr<BlockLog> CharacterLog(const std::vector<std::string>& prompts) {
  auto log = std::make_unique<BlockLog>(1, 1);
  for (const std::string& prompt : prompts) {
    const auto num_tokens = static_cast<int64_t>(prompt.size());
    EXPECT_TRUE(log->Add({.input_tokens = num_tokens}, std::as_bytes(std::span(prompt))).ok());
  }
  return log;
}

ReplayResult Lru(const std::vector<std::string>& prompts, int64_t capacity) {
  return ReplayPolicy(*CharacterLog(prompts), {.capacity = capacity});
}

TEST(ReplayRun, LruKeepsWhatWasUsedLast) {
  // Block b is evicted first, because it is the last block of its prompt. Block d is evicted next.
  const ReplayResult three = Lru({"ab", "cd", "ab"}, 3);
  EXPECT_EQ(three.hit_blocks, 1);
  EXPECT_EQ(three.hit_tokens, 1);
  EXPECT_EQ(three.evictions, 2);
  EXPECT_EQ(three.regret, 1);
  const ReplayResult two = Lru({"ab", "cd", "ab"}, 2);
  EXPECT_EQ(two.hit_blocks, 0);
  EXPECT_EQ(two.evictions, 4);
  EXPECT_EQ(two.regret, 2);
  const ReplayResult four = Lru({"ab", "cd", "ab"}, 4);
  EXPECT_EQ(four.hit_blocks, 2);
  EXPECT_EQ(four.evictions, 0);
  EXPECT_EQ(four.regret, 0);
}

TEST(ReplayRun, AWholePromptCanBeFound) { EXPECT_EQ(Lru({"abcd", "abcd"}, 8).hit_blocks, 4); }

TEST(ReplayRun, EqualBlocksAfterDifferentOnesDiffer) {
  EXPECT_EQ(Lru({"abc", "xbc", "abx"}, 16).hit_blocks, 2);
}

TEST(ReplayRun, OfAPromptThatIsLongerThanTheCacheTheFirstBlocksStay) {
  for (const bool make_room_first : {false, true}) {
    const auto log = CharacterLog({"abcd", "abcd", "abxy"});
    const ReplayResult result =
        ReplayPolicy(*log, {.capacity = 3, .make_room_first = make_room_first});
    EXPECT_EQ(result.hit_blocks, 3 + 2);
  }
}

TEST(ReplayRun, PromptsWithoutABlockChangeNothing) {
  EXPECT_EQ(Lru({"", "ab", "", "ab"}, 2).hit_blocks, 2);
}

TEST(ReplayRun, LruHitsWhatTheReuseDistancesSay) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed, 3);
    const ReuseCurve curve = MeasureReuse(BlockView(*made.log, 1), {}).curve;
    for (int64_t capacity = 1; capacity <= static_cast<int64_t>(made.log->num_nodes()) + 1;
         ++capacity) {
      for (const bool make_room_first : {false, true}) {
        const ReplayResult result =
            ReplayPolicy(*made.log, {.capacity = capacity, .make_room_first = make_room_first});
        EXPECT_EQ(result.hit_blocks, curve.HitsWith(capacity).blocks)
            << "seed " << seed << ", capacity " << capacity << ", " << make_room_first;
        EXPECT_EQ(result.hit_tokens, curve.HitsWith(capacity).tokens);
      }
    }
  }
}

TEST(ReplayRun, NoPolicyBeatsTheOptimumNorLosesWhatFits) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    const auto num_distinct = static_cast<int64_t>(made.log->num_nodes());
    for (const Kind kind : kKinds) {
      for (const bool make_room_first : {false, true}) {
        for (int64_t capacity = 1; capacity <= num_distinct + 2; capacity += 1 + capacity / 4) {
          const ReplayResult result = ReplayPolicy(
              *made.log,
              {.policy = kind, .capacity = capacity, .make_room_first = make_room_first});
          const std::string place = fmt::format("seed {}, policy {}, {} blocks, make_room_first {}",
                                                seed, NameOf(kind), capacity, make_room_first);
          EXPECT_EQ(result.policy, kind);
          EXPECT_LE(result.hit_blocks, OfflineOptimumHits(*made.log, capacity)) << place;
          EXPECT_LE(result.regret, result.evictions) << place;
          if (capacity < num_distinct) continue;
          EXPECT_EQ(result.hit_blocks, OfflineOptimumHits(*made.log, num_distinct)) << place;
          EXPECT_EQ(result.evictions, 0) << place;
        }
      }
    }
  }
}

// Replays the same prompts as hash ids and as token ids, with four tokens per block.
TEST(ReplayRun, TokenIdsAreReplayedAsTheirBlocksAre) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed, 4);
    BlockLog tokens(4 * sizeof(TokenId), 4);
    for (size_t r = 0; r < made.prompts.size(); ++r) {
      std::vector<TokenId> ids;
      for (const char c : made.prompts[r]) {
        ids.insert(ids.end(), {TokenId{c}, 0, c == 'a' ? 1 : 2, 2'000'000'000});
      }
      ASSERT_TRUE(tokens.Add(made.log->request(r), std::as_bytes(std::span(ids))).ok());
    }
    for (const Kind kind : kKinds) {
      const ReplayResult of_hashes = ReplayPolicy(*made.log, {.policy = kind, .capacity = 5});
      const ReplayResult of_tokens =
          ReplayPolicy(tokens, {.form = TraceForm::kTokenIds, .policy = kind, .capacity = 5});
      EXPECT_EQ(of_tokens.hit_blocks, of_hashes.hit_blocks) << NameOf(kind);
      EXPECT_EQ(of_tokens.hit_tokens, of_hashes.hit_tokens) << NameOf(kind);
      EXPECT_EQ(of_tokens.evictions, of_hashes.evictions) << NameOf(kind);
    }
  }
}

TEST(ReplayRun, TimesOfManyYearsPass) {
  BlockLog log(1, 1);
  const std::string prompt = "ab";
  for (const double time : {0.0, 1e8, 1e10}) {
    ASSERT_TRUE(log.Add({.time = time}, std::as_bytes(std::span(prompt))).ok());
  }
  EXPECT_EQ(ReplayPolicy(log, {.capacity = 2}).hit_blocks, 4);
}

// Replays requests for documents of four blocks, in alternating busy and quiet periods. Each
// document is requested three times, at intervals of 2 s. `time_scale` multiplies all times in the
// log. Returns the number of hits.
int64_t HitsOfDocuments(double time_scale) {
  constexpr int kDocuments = 6000, kUses = 3;
  std::multimap<double, int32_t> due;  // documents by the times of their requests
  double start = 0;
  for (int32_t document = 0; document < kDocuments; ++document) {
    start += document / 300 % 2 == 0 ? 0.02 : 0.2;
    for (int use = 0; use < kUses; ++use) due.emplace(start + 2 * use, document);
  }
  BlockLog log(sizeof(int32_t), 512);
  for (const auto& [time, document] : due) {
    const std::array chain = {document, document, document, document};
    const auto bytes = std::as_bytes(std::span(chain));
    EXPECT_TRUE(log.Add({.time = time * time_scale, .input_tokens = 4 * 512}, bytes).ok());
  }
  return ReplayPolicy(log, {.policy = Kind::kAdaptive, .capacity = 200}).hit_blocks;
}

TEST(ReplayRun, AdaptiveGoesByTheTimesOfTheLog) {
  const int64_t hits = HitsOfDocuments(1);
  EXPECT_GT(hits, 0);
  EXPECT_NE(hits, HitsOfDocuments(0));
  EXPECT_EQ(hits, HitsOfDocuments(2));  // a log with doubled times gives the same number of hits
}

ReplayDisk EndlessDisk(int32_t blocks_per_chunk, double write_bytes_per_s = 0) {
  return {.disk = {.chunk_bytes = 10,
                   .segments_max = 1000,
                   .write_bytes_per_s = write_bytes_per_s,
                   .segment_bytes = 1000},
          .blocks_per_chunk = blocks_per_chunk};
}

// Returns the hits of a cache that never evicts a block. If the device finds no block, an endless
// disk with chunks of `blocks_per_chunk` blocks has the full chunks of these hits.
int64_t InfiniteHits(const BlockLog& log, int64_t capacity, int64_t blocks_per_chunk = 1) {
  int64_t hits = 0;
  for (size_t r = 0; r < log.num_requests(); ++r) {
    const int64_t num_seen = std::min(log.num_seen(r), capacity);
    hits += num_seen / blocks_per_chunk * blocks_per_chunk;
  }
  return hits;
}

TEST(ReplayRun, DeviceAndAnEndlessDiskHitWhatAnInfiniteCacheHits) {
  int64_t num_disk_hits = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed, 4);
    const auto num_distinct = static_cast<int64_t>(made.log->num_nodes());
    for (int64_t capacity = 1; capacity <= num_distinct + 1; capacity += 1 + capacity / 4) {
      const ReplayResult alone = ReplayPolicy(*made.log, {.capacity = capacity});
      for (const int32_t size : {1, 2, 4}) {
        const ReplayResult result =
            ReplayPolicy(*made.log, {.capacity = capacity, .disk = EndlessDisk(size)});
        // The disk does not change the hits of the device.
        EXPECT_EQ(result.hit_blocks, alone.hit_blocks);
        EXPECT_EQ(result.evictions, alone.evictions);
        const int64_t all = result.hit_blocks + result.disk_hit_blocks;
        EXPECT_LE(all, InfiniteHits(*made.log, capacity));
        EXPECT_GE(all, InfiniteHits(*made.log, capacity, size)) << "seed " << seed;
        EXPECT_EQ(result.disk_hit_tokens, 4 * result.disk_hit_blocks);
        EXPECT_GE(result.disk.loaded * size, result.disk_hit_blocks);
        EXPECT_LE(result.disk.stored, CountChunks(*made.log, size));
        num_disk_hits += result.disk_hit_blocks;
      }
    }
  }
  EXPECT_GT(num_disk_hits, 1000);
}

TEST(ReplayRun, ADiskThatWritesTooSlowlyHasNoHits) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    const ReplayResult result =
        ReplayPolicy(*made.log, {.capacity = 1, .disk = EndlessDisk(1, 1e-3)});
    EXPECT_EQ(result.disk_hit_blocks, 0);
  }
}

// The device holds one block, and a chunk has two blocks. The first prompt is computed at time 0.
TEST(ReplayRun, ALookupContinuesOnTheDiskInTheMiddleOfAChunk) {
  const auto log = std::make_unique<BlockLog>(1, 1);
  const auto add = [&](double time, const std::string& prompt) {
    const auto num_tokens = static_cast<int64_t>(prompt.size());
    EXPECT_TRUE(
        log->Add({.time = time, .input_tokens = num_tokens}, std::as_bytes(std::span(prompt)))
            .ok());
  };
  add(0, "abcdef");
  add(10, "uvwxyz");
  add(20, "abcdxf");
  // The device has a, b and c of the first prompt when the third request arrives.
  const ReplayResult result = ReplayPolicy(*log, {.capacity = 9, .disk = EndlessDisk(2)});
  EXPECT_EQ(result.hit_blocks, 3);
  EXPECT_EQ(result.disk_hit_blocks, 1);
  EXPECT_EQ(result.disk.loaded, 1);
  EXPECT_EQ(result.disk.stored, 7);
}

// The first prompt is computed at 1 token per second from time 0 on. At time 3.5, its first three
// chunks are on the disk. The second prompt has evicted all blocks of the first from the device.
TEST(ReplayRun, AChunkIsStoredWhenItsLastTokenIsComputed) {
  BlockLog log(1, 1);
  for (const auto& [time, prompt] :
       {std::pair(0.0, "abcdef"), std::pair(0.0, "uvwxyz"), std::pair(3.5, "abcdef")}) {
    const std::string_view text = prompt;
    EXPECT_TRUE(log.Add({.time = time, .input_tokens = 6}, std::as_bytes(std::span(text))).ok());
  }
  ReplayDisk disk = EndlessDisk(1);
  const auto disk_hits = [&](double tokens_per_s) {
    disk.prefill_tokens_per_s = tokens_per_s;
    const ReplayResult result = ReplayPolicy(log, {.capacity = 6, .disk = disk});
    EXPECT_EQ(result.hit_blocks, 0);
    return result.disk_hit_blocks;
  };
  EXPECT_EQ(disk_hits(1), 3);
  EXPECT_EQ(disk_hits(2), 6);
  EXPECT_EQ(disk_hits(0), 6);
}

}  // namespace
}  // namespace incipit
