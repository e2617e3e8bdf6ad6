// Tests that logits, keys and values of a token always have the same bits. The bits must not depend
// on other tokens of the batch, the chunks of the prompt, the number of threads, cache hits, or
// loads from a disk. The tests cover all model families, all instruction sets of the machine, and
// all formats of weights and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/exactness/random_model.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

std::vector<TokenId> RandomTokens(int32_t vocab_size, int32_t count, uint64_t seed) {
  RandomNumbers numbers(seed);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(numbers.Below(vocab_size));
  return tokens;
}

// Allocates blocks for sequences. The blocks of each sequence are scattered over the pool.
class Blocks {
 public:
  Blocks(int32_t num_blocks, int32_t block_size) : block_size_(block_size) {
    free_.resize(static_cast<size_t>(num_blocks));
    std::iota(free_.begin(), free_.end(), 0);
    RandomNumbers numbers(5);
    for (int32_t i = num_blocks - 1; i > 0; --i) std::swap(free_[i], free_[numbers.Below(i + 1)]);
  }
  std::vector<BlockId> Take(int32_t num_tokens) {
    std::vector<BlockId> blocks;
    for (int32_t i = 0; i < num_tokens; i += block_size_) {
      blocks.push_back(BlockId{free_.back()});
      free_.pop_back();
    }
    return blocks;
  }

 private:
  int32_t block_size_;
  std::vector<int32_t> free_;
};

// The results of one sequence that is computed alone, in one step, by one thread.
struct Expected {
  std::vector<TokenId> tokens;
  Tensor logits;                                 // [position][vocabulary]
  std::vector<std::vector<std::byte>> contents;  // [position]: bytes of its keys and values

  std::span<const TokenId> Tokens(int32_t begin, int32_t count) const {
    return std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  }
};

Expected ComputeAlone(RandomModelOptions options, std::vector<TokenId> tokens) {
  const auto length = static_cast<int32_t>(tokens.size());
  options.num_threads = 1;
  options.num_blocks = length / options.family->block_size + 1;
  RandomModel model(options);
  const std::vector<BlockId> blocks =
      Blocks(options.num_blocks, options.family->block_size).Take(length);
  Expected expected = {.tokens = std::move(tokens),
                       .logits = Tensor(DType::kF32, 0, model.config().vocab_size),
                       .contents = {}};
  expected.logits = model.Run({{expected.tokens, 0, blocks}});
  for (int32_t i = 0; i < length; ++i) expected.contents.push_back(model.KeysAndValues(blocks, i));
  return expected;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Expects that rows [first, first + count) of `logits` have the expected bits of the positions
// [begin, begin + count).
void ExpectLogits(const Tensor& logits, int64_t first, const Expected& expected, int32_t begin,
                  int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    ASSERT_TRUE(SameBits(logits.Row(first + i), expected.logits.Row(begin + i)))
        << "logits of position " << begin + i;
  }
}

void ExpectContents(const RandomModel& model, std::span<const BlockId> blocks,
                    const Expected& expected, int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    ASSERT_EQ(model.KeysAndValues(blocks, i), expected.contents[static_cast<size_t>(i)])
        << "keys and values of position " << i;
  }
}

// Computes the positions [begin, end) of a sequence, `chunk` positions per step. Compares the
// logits, keys and values with `expected`.
void ExpectChunks(RandomModel& model, std::vector<BlockId> blocks, const Expected& expected,
                  int32_t begin, int32_t end, int32_t chunk) {
  for (int32_t at = begin; at < end; at += chunk) {
    const int32_t count = std::min(chunk, end - at);
    const Tensor logits = model.Run({{expected.Tokens(at, count), at, blocks}});
    ExpectLogits(logits, 0, expected, at, count);
  }
  ExpectContents(model, blocks, expected, begin, end);
}

// Returns the backends of this machine in which the bits of a row do not depend on other rows.
// Equal backends are returned only once.
std::vector<BackendCase> ExactBackends() {
  std::vector<BackendCase> exact;
  std::vector<std::string> descriptions;
  for (const BackendCase& backend : Backends()) {
    if (!backend.unavailable.empty() || !backend.keeps_rows_apart) continue;
    const std::string description = backend.create(1)->limits().description;
    const bool known = std::ranges::find(descriptions, description) != descriptions.end();
    if (!known) exact.push_back(backend);
    descriptions.push_back(description);
  }
  return exact;
}

using Case = std::tuple<Family, BackendCase, WeightForm, DType>;

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [family, backend, weights, kv_dtype] = info.param;
  return family.name + "_" + backend.name + "_" + weights.name + "_" +
         std::string(NameOf(kv_dtype));
}

constexpr int32_t kLength = 133;

class ExactnessTest : public testing::TestWithParam<Case> {
 protected:
  const Family& family() const { return std::get<0>(GetParam()); }

  RandomModelOptions Options(int32_t num_threads, int32_t num_blocks) const {
    const auto& [family, backend, weights, kv_dtype] = GetParam();
    return {.family = &family,
            .backend = &backend,
            .weights = weights,
            .kv_dtype = kv_dtype,
            .num_threads = num_threads,
            .num_blocks = num_blocks};
  }
  int32_t BlocksFor(int32_t num_tokens) const { return num_tokens / family().block_size + 1; }

  Expected Alone(uint64_t seed) const {
    return ComputeAlone(Options(1, 0), RandomTokens(family().config.vocab_size, kLength, seed));
  }
};

TEST_P(ExactnessTest, ChunksOfAnySizeOnAnyNumberOfThreads) {
  const Expected expected = Alone(1);
  for (const auto& [chunk, num_threads] :
       {std::pair{1, 1}, {7, 1}, {16, 1}, {64, 1}, {512, 2}, {64, 2}, {1, 2}, {512, 4}, {16, 4}}) {
    SCOPED_TRACE(testing::Message() << "chunks of " << chunk << ", " << num_threads << " threads");
    const int32_t num_blocks = BlocksFor(kLength);
    RandomModel model(Options(num_threads, num_blocks));
    const auto blocks = Blocks(num_blocks, family().block_size).Take(kLength);
    ExpectChunks(model, blocks, expected, 0, kLength, chunk);
  }
}

TEST_P(ExactnessTest, AmongOneToSixtyFourOthers) {
  constexpr int32_t kOthers = 64, kOtherLength = 40;
  const Expected expected = Alone(2);
  const int32_t num_blocks = BlocksFor(kLength) + kOthers * (kOtherLength / 4);
  RandomModel model(Options(2, num_blocks));
  Blocks pool(num_blocks, family().block_size);
  const std::vector<BlockId> blocks = pool.Take(kLength);
  struct Other {
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;
    int32_t num_done = 0;
  };
  std::vector<Other> others;
  for (int32_t i = 0; i < kOthers; ++i) {
    others.push_back(
        {RandomTokens(family().config.vocab_size, kOtherLength, 100 + i), pool.Take(kOtherLength)});
  }
  const std::vector<std::pair<int32_t, int32_t>> steps = {
      {1, 40}, {5, 1}, {64, 1}, {63, 17}, {2, 1}, {31, 1}, {3, 33}, {15, 1}, {8, 1}, {33, 36}};
  int32_t at = 0;
  for (const auto& [num_others, count] : steps) {
    SCOPED_TRACE(testing::Message() << num_others << " others");
    std::vector<Part> parts;
    int64_t row = 0, num_rows = 0;
    const int32_t position = at % (num_others + 1);
    for (int32_t i = 0; i <= num_others; ++i) {
      if (i == position) {
        row = num_rows;
        parts.push_back({expected.Tokens(at, count), at, blocks});
        num_rows += count;
      }
      if (i == num_others) break;
      Other& other = others[static_cast<size_t>(i)];
      const int32_t num_tokens = i % 7 == 3 ? 3 : 1;  // most decode
      parts.push_back({std::span(other.tokens).subspan(other.num_done, num_tokens), other.num_done,
                       other.blocks});
      other.num_done += num_tokens;
      num_rows += num_tokens;
    }
    ExpectLogits(model.Run(parts), row, expected, at, count);
    at += count;
  }
  ASSERT_EQ(at, kLength - 1);
  // Also checks a step that returns logits only for the last token of each sequence in the step.
  const std::span<const TokenId> any = others.back().tokens;
  const Tensor last = model.Run({{any.first(3), 0, others.back().blocks},
                                 {expected.Tokens(at, 1), at, blocks},
                                 {any.first(1), 0, others.front().blocks}},
                                RandomModel::Rows::kLast);
  ExpectLogits(last, 1, expected, at, 1);
  ExpectContents(model, blocks, expected, 0, kLength);
}

// Tests a prefix that is found in the cache, a copy of a part of a block, and a sequence that
// continues after its blocks were overwritten.
TEST_P(ExactnessTest, PrefixesFoundCopiedAndFoundAgain) {
  const int32_t block_size = family().block_size;
  const Expected first = Alone(3);
  const int32_t num_shared_blocks = 50 / block_size + 1;
  const int32_t num_shared = num_shared_blocks * block_size + block_size / 2 + 1;
  std::vector<TokenId> tokens = RandomTokens(family().config.vocab_size, kLength, 4);
  std::copy_n(first.tokens.begin(), num_shared, tokens.begin());
  const Expected second = ComputeAlone(Options(1, 0), std::move(tokens));

  const int32_t num_blocks = 4 * BlocksFor(kLength);
  RandomModel model(Options(2, num_blocks));
  Blocks pool(num_blocks, block_size);
  const std::vector<BlockId> blocks = pool.Take(kLength);
  ExpectChunks(model, blocks, first, 0, kLength, 45);

  // The second sequence shares whole blocks with the first sequence. In the next block, only the
  // first tokens are equal in both sequences. The slots of these tokens are copied to a new block.
  std::vector<BlockId> shared = pool.Take(kLength);
  std::copy_n(blocks.begin(), num_shared_blocks, shared.begin());
  model.Copy({.from = blocks[num_shared_blocks],
              .to = shared[num_shared_blocks],
              .num_tokens = num_shared % block_size});
  ExpectContents(model, shared, second, 0, num_shared);
  ExpectChunks(model, shared, second, num_shared, num_shared + 30, 29);

  // The third sequence overwrites the blocks that only the preempted second sequence used. The
  // second sequence then finds the shared blocks again.
  const Expected third = Alone(5);
  std::vector<BlockId> reused = pool.Take(kLength);
  std::copy(shared.begin() + num_shared_blocks, shared.end(), reused.begin());
  ExpectChunks(model, reused, third, 0, kLength, 64);
  std::vector<BlockId> again = pool.Take(kLength);
  std::copy_n(blocks.begin(), num_shared_blocks, again.begin());
  const int32_t found = num_shared_blocks * block_size;
  ExpectChunks(model, again, second, found, num_shared + 30, 200);
  ExpectChunks(model, again, second, num_shared + 30, kLength, 1);
  ExpectContents(model, again, second, 0, kLength);
}

// One model computes and stores the blocks. Another model gets the blocks from a tier that was
// started again, and computes the rest.
TEST_P(ExactnessTest, PrefixesLoadedFromADisk) {
  const int32_t block_size = family().block_size;
  const Expected expected = Alone(7);
  const int32_t num_blocks = BlocksFor(kLength), num_full = kLength / block_size;
  RandomModel computing(Options(2, num_blocks));
  const auto computed = Blocks(num_blocks, block_size).Take(kLength);
  ExpectChunks(computing, computed, expected, 0, kLength, 45);

  TierHarness harness;
  ChunkShape& shape = harness.options.shape;
  shape = {.block_size = block_size, .block_bytes = computing.Blocks({computed.data(), 1}).size()};
  const uint64_t record_bytes = RecordLayout(shape).record_bytes;
  harness.options.segment_bytes = 64 * record_bytes;
  harness.options.size_bytes = 2 * harness.options.segment_bytes;
  // Stores use at most half of the slots.
  harness.options.staging_bytes = static_cast<uint64_t>(2 * num_full + 2) * record_bytes;
  harness.Start();
  std::vector<TestChunk> chunks;
  for (int32_t i = 0; i < num_full; ++i) {
    chunks.emplace_back(1, static_cast<uint64_t>(i), shape);
    const std::optional<StoreTicket> ticket = harness.tier->BeginStore(chunks.back().identity, {});
    ASSERT_TRUE(ticket);
    const auto bytes = computing.Blocks({&computed[static_cast<size_t>(i)], 1});
    std::ranges::copy(bytes, harness.tier->bytes_of(*ticket).begin());
    harness.tier->FinishStore(*ticket);
  }
  ASSERT_TRUE(harness.WaitForStores());

  harness.Start();
  RandomModel loading(Options(1, 2 * num_blocks));
  const auto loaded = Blocks(2 * num_blocks, block_size).Take(kLength);
  std::vector<LoadTicket> tickets;
  for (const TestChunk& chunk : chunks) {
    const auto ticket = harness.tier->Load(chunk.identity);
    ASSERT_TRUE(ticket);
    tickets.push_back(*ticket);
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    ASSERT_TRUE(
        harness.WaitFor([&] { return harness.tier->state(tickets[i]) != LoadState::kPending; }));
    ASSERT_EQ(harness.tier->state(tickets[i]), LoadState::kReady);
    loading.Write({.to = loaded[i], .data = harness.tier->bytes(tickets[i]).data()});
    harness.tier->Release(tickets[i]);
  }
  const int32_t num_loaded = num_full * block_size;
  ExpectContents(loading, loaded, expected, 0, num_loaded);
  ExpectChunks(loading, loaded, expected, num_loaded, kLength, 3);
  ExpectContents(loading, loaded, expected, 0, kLength);
}

INSTANTIATE_TEST_SUITE_P(Families, ExactnessTest,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(ExactBackends()),
                                          testing::ValuesIn(WeightForms()),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         CaseName);

using LongCase = std::tuple<BackendCase, DType, int32_t>;

std::string LongCaseName(const testing::TestParamInfo<LongCase>& info) {
  const auto& [backend, kv_dtype, window] = info.param;
  return backend.name + "_" + std::string(NameOf(kv_dtype)) + "_window" + std::to_string(window);
}

class LongExactnessTest : public testing::TestWithParam<LongCase> {};

// The contexts have more than two of the splits that threads share.
TEST_P(LongExactnessTest, ContextsThatThreadsShare) {
  constexpr int32_t kLong = 2300;
  const auto& [backend, kv_dtype, window] = GetParam();
  const Family family = LongContextFamily(window, kLong);
  RandomModelOptions options = {.family = &family,
                                .backend = &backend,
                                .weights = WeightForms().front(),
                                .kv_dtype = kv_dtype,
                                .num_threads = 1,
                                .num_blocks = kLong / family.block_size + 1};
  const Expected expected = ComputeAlone(options, RandomTokens(family.config.vocab_size, kLong, 6));
  for (const int32_t num_threads : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << num_threads << " threads");
    options.num_threads = num_threads;
    RandomModel model(options);
    const auto blocks = Blocks(options.num_blocks, family.block_size).Take(kLong);
    const int32_t decoded_from = kLong - 40;
    ExpectChunks(model, blocks, expected, 0, decoded_from, num_threads == 1 ? 512 : 700);
    ExpectChunks(model, blocks, expected, decoded_from, kLong, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, LongExactnessTest,
                         testing::Combine(testing::ValuesIn(ExactBackends()),
                                          testing::Values(DType::kF32, DType::kBF16),
                                          testing::Values(0, 1200)),
                         LongCaseName);

}  // namespace
}  // namespace incipit
