// What the cache costs per token, block and prompt: one thread, 100,000 blocks of 16 tokens.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {
namespace {

constexpr int32_t kNumBlocks = 100'000;
constexpr int32_t kBlockSize = 16;
constexpr int32_t kPromptTokens = 4096;
constexpr int32_t kPromptBlocks = kPromptTokens / kBlockSize;

// Time per token, probe, block or prompt.
void CountItems(benchmark::State& state, int64_t items_per_iteration) {
  state.counters["ns_per_item"] =
      benchmark::Counter(static_cast<double>(state.iterations() * items_per_iteration) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::vector<TokenId> Prompt(int32_t number) {
  std::vector<TokenId> tokens(kPromptTokens + 1);
  for (int32_t i = 0; i <= kPromptTokens; ++i) tokens[static_cast<size_t>(i)] = number * 7919 + i;
  return tokens;
}

// A prompt's table, its hashes computed and its memory reserved.
BlockTable TableOf(const KvCacheManager& cache, const std::vector<TokenId>& tokens) {
  BlockTable table;
  table.root = cache.hasher().Root({});
  table.hashes.reserve(kPromptBlocks);
  table.blocks.reserve(kPromptBlocks + 1);
  cache.hasher().Extend(table.root, tokens, table.hashes);
  return table;
}

struct Prompts {
  Prompts(const KvCacheManager& cache, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back(Prompt(i));
      tables.push_back(TableOf(cache, tokens.back()));
    }
  }
  std::vector<std::vector<TokenId>> tokens;
  std::vector<BlockTable> tables;
};

void ComputeAll(KvCacheManager& cache, const std::vector<TokenId>& tokens, BlockTable& table) {
  INCIPIT_CHECK(cache.AllocateSlots(table, {}, kPromptTokens + 1));
  cache.CacheBlocks(table, tokens, kPromptTokens + 1);
  cache.Free(table);
}

void Hash(benchmark::State& state, HashAlgorithm algorithm) {
  const BlockHasher hasher({.block_size = kBlockSize, .algorithm = algorithm});
  const std::vector<TokenId> tokens = Prompt(1);
  const ChainRoot root = hasher.Root({});
  std::vector<BlockHash> hashes;
  hashes.reserve(kPromptBlocks);
  for (auto _ : state) {
    hashes.clear();
    hasher.Extend(root, tokens, hashes);
    benchmark::DoNotOptimize(hashes.data());
    benchmark::ClobberMemory();
  }
  CountItems(state, kPromptTokens);
}
BENCHMARK_CAPTURE(Hash, sha256, HashAlgorithm::kSha256)->Name("hash_sha256");
BENCHMARK_CAPTURE(Hash, xxh3, HashAlgorithm::kXxh3)->Name("hash_xxh3");
BENCHMARK_CAPTURE(Hash, sha256_cbor, HashAlgorithm::kSha256Cbor)->Name("hash_sha256_cbor");
BENCHMARK_CAPTURE(Hash, xxh3_cbor, HashAlgorithm::kXxh3Cbor)->Name("hash_xxh3_cbor");

// What no key of 16 tokens by sha256 can do without: two compressions, each from the state that the
// one before it left, of chunks that lie ready.
void TwoCompressions(benchmark::State& state) {
  const Sha256Implementation& sha256 = Sha256Implementations().front();
  std::array<uint8_t, 2 * kSha256ChunkBytes> chunks{};
  Sha256State words{};
  for (auto _ : state) {
    for (int32_t i = 0; i < kPromptBlocks; ++i) sha256.compress(words, chunks.data(), 2);
    benchmark::DoNotOptimize(words);
  }
  CountItems(state, kPromptTokens);
  state.SetLabel(std::string(sha256.name));
}
BENCHMARK(TwoCompressions)->Name("hash_two_compressions");

void LookupMiss(benchmark::State& state) {
  KvCacheManager cache({.num_blocks = kNumBlocks, .block_size = kBlockSize});
  Prompts stored(cache, kNumBlocks / kPromptBlocks - 1);
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    ComputeAll(cache, stored.tokens[i], stored.tables[i]);
  }
  const std::vector<TokenId> other = Prompt(1'000'000);
  const BlockTable table = TableOf(cache, other);
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.pool().Find(table.hashes[next]));
    next = (next + 1) % table.hashes.size();
  }
  CountItems(state, 1);
}
BENCHMARK(LookupMiss)->Name("lookup_miss");

// Finds, takes and frees the blocks of `num_prompts` stored prompts by turns.
void Hit(benchmark::State& state, int32_t num_prompts) {
  KvCacheManager cache({.num_blocks = kNumBlocks, .block_size = kBlockSize});
  Prompts stored(cache, num_prompts);
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    ComputeAll(cache, stored.tokens[i], stored.tables[i]);
  }
  size_t next = 0;
  for (auto _ : state) {
    BlockTable& table = stored.tables[next];
    const ComputedBlocks computed = cache.GetComputedBlocks(stored.tokens[next], table);
    INCIPIT_CHECK(computed.num_tokens == kPromptTokens);
    INCIPIT_CHECK(cache.AllocateSlots(table, computed, kPromptTokens));
    cache.Free(table);
    next = (next + 1) % stored.tokens.size();
  }
  CountItems(state, kPromptBlocks);
}
BENCHMARK_CAPTURE(Hit, hot, 1)->Name("hit_hot");
BENCHMARK_CAPTURE(Hit, cold, kNumBlocks / kPromptBlocks - 1)->Name("hit_cold");

// A full pool of published blocks: every block taken is one evicted.
void AllocateEvict(benchmark::State& state) {
  KvCacheManager cache({.num_blocks = kNumBlocks, .block_size = kBlockSize});
  Prompts stored(cache, kNumBlocks / kPromptBlocks + 1);
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    ComputeAll(cache, stored.tokens[i], stored.tables[i]);
  }
  size_t next = 0;
  for (auto _ : state) {
    BlockTable& table = stored.tables[next];
    INCIPIT_CHECK(cache.AllocateSlots(table, {}, kPromptTokens));
    state.PauseTiming();
    cache.CacheBlocks(table, stored.tokens[next], kPromptTokens);
    cache.Free(table);
    next = (next + 1) % stored.tables.size();
    state.ResumeTiming();
  }
  CountItems(state, kPromptBlocks);
}
BENCHMARK(AllocateEvict)->Name("allocate_evict_lru");

void Publish(benchmark::State& state) {
  KvCacheManager cache({.num_blocks = kNumBlocks, .block_size = kBlockSize});
  Prompts stored(cache, kNumBlocks / kPromptBlocks + 1);
  size_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    BlockTable& table = stored.tables[next];
    INCIPIT_CHECK(cache.AllocateSlots(table, {}, kPromptTokens));
    state.ResumeTiming();
    cache.CacheBlocks(table, stored.tokens[next], kPromptTokens);
    state.PauseTiming();
    cache.Free(table);
    next = (next + 1) % stored.tables.size();
    state.ResumeTiming();
  }
  CountItems(state, kPromptBlocks);
}
BENCHMARK(Publish)->Name("publish");

// Hashing included; every block is taken from an older prompt.
void PromptAllMiss(benchmark::State& state) {
  KvCacheManager cache({.num_blocks = kNumBlocks, .block_size = kBlockSize});
  std::vector<TokenId> tokens = Prompt(0);
  BlockTable table = TableOf(cache, tokens);
  TokenId number = 0;
  for (auto _ : state) {
    tokens.front() = ++number;  // every hash of the chain changes
    table.hashes.clear();
    cache.hasher().Extend(table.root, tokens, table.hashes);
    const ComputedBlocks computed = cache.GetComputedBlocks(tokens, table);
    INCIPIT_CHECK(computed.num_tokens == 0);
    INCIPIT_CHECK(cache.AllocateSlots(table, computed, kPromptTokens + 1));
    cache.CacheBlocks(table, tokens, kPromptTokens + 1);
    cache.Free(table);
  }
  CountItems(state, 1);
}
BENCHMARK(PromptAllMiss)->Name("prompt_4096_all_miss")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
