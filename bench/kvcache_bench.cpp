// Measures the time that KvCacheManager needs per token, per block and per prompt. The benchmarks
// use one thread. Most benchmarks use a cache of 100,000 blocks of 16 tokens.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {
namespace {

constexpr int32_t kNumBlocks = 100'000;
constexpr int32_t kBlockSize = 16;
constexpr int32_t kPromptTokens = 4096;
constexpr int32_t kPromptBlocks = kPromptTokens / kBlockSize;
// Number of prompts that a benchmark measures before it stops its timer to create new prompts. The
// number is above 1, because stopping the timer is slow.
constexpr size_t kPromptsPerStop = 8;
// Simulated time between two prompts.
constexpr std::chrono::milliseconds kTimePerPrompt(70);

// Reports the time per item in nanoseconds. The items of a benchmark are tokens, lookups, blocks or
// prompts.
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

// Returns a block table for the prompt `tokens`. The table contains the hashes of all blocks of the
// prompt, and has reserved memory for the ids of these blocks.
BlockTable TableOf(const KvCacheManager& cache, const std::vector<TokenId>& tokens) {
  BlockTable table;
  table.root = cache.hasher().Root({});
  table.hashes.reserve(kPromptBlocks);
  table.blocks.reserve(kPromptBlocks + 1);
  cache.hasher().Extend(table.root, tokens, table.hashes);
  return table;
}

struct Prompts {
  Prompts(const KvCacheManager& cache, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(Prompt(static_cast<int32_t>(i)));
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

// Measures two SHA-256 compressions, which process 64 bytes each. The key of a block of 16 tokens
// needs at least these two compressions.
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

KvCacheOptions OptionsOf(int64_t num_blocks, EvictionPolicyKind policy) {
  return {
      .num_blocks = static_cast<int32_t>(num_blocks), .block_size = kBlockSize, .policy = policy};
}

// A full cache: all prompts of `prompts` are cached, and no request is running.
struct FullCache {
  FullCache(int64_t num_blocks, EvictionPolicyKind policy)
      : cache(OptionsOf(num_blocks, policy)),
        prompts(cache, static_cast<size_t>(num_blocks / (kPromptBlocks + 1))) {
    for (size_t i = 0; i < prompts.tokens.size(); ++i) {
      ComputeAll(cache, prompts.tokens[i], prompts.tables[i]);
    }
  }
  KvCacheManager cache;
  Prompts prompts;
};

void LookupMiss(benchmark::State& state) {
  FullCache full(kNumBlocks, EvictionPolicyKind::kAdaptive);
  const std::vector<TokenId> other = Prompt(1'000'000);
  const BlockTable table = TableOf(full.cache, other);
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(full.cache.pool().Find(table.hashes[next]));
    next = (next + 1) % table.hashes.size();
  }
  CountItems(state, 1);
}
BENCHMARK(LookupMiss)->Name("lookup_miss");

// Measures a prompt whose blocks are all cached: looks up, allocates and frees the blocks. If `hot`
// is true, each iteration uses the same prompt; otherwise the iterations cycle through all cached
// prompts.
void Hit(benchmark::State& state, bool hot, EvictionPolicyKind policy, int64_t num_blocks) {
  FullCache full(num_blocks, policy);
  const size_t num_used = hot ? 1 : full.prompts.tokens.size();
  size_t next = 0;
  for (auto _ : state) {
    BlockTable& table = full.prompts.tables[next];
    const std::vector<TokenId>& tokens = full.prompts.tokens[next];
    const ComputedBlocks computed = full.cache.GetComputedBlocks(tokens, table);
    INCIPIT_CHECK(computed.num_tokens == kPromptTokens);
    INCIPIT_CHECK(full.cache.AllocateSlots(table, computed, kPromptTokens));
    full.cache.Free(table);
    next = (next + 1) % num_used;
  }
  CountItems(state, kPromptBlocks);
}
constexpr auto kLru = EvictionPolicyKind::kLru;
constexpr auto kAdaptive = EvictionPolicyKind::kAdaptive;
BENCHMARK_CAPTURE(Hit, hot, true, kAdaptive, kNumBlocks)->Name("hit_hot");
BENCHMARK_CAPTURE(Hit, cold, false, kAdaptive, kNumBlocks)->Name("hit_cold");
BENCHMARK_CAPTURE(Hit, hot_lru, true, kLru, kNumBlocks)->Name("hit_hot_lru");
BENCHMARK_CAPTURE(Hit, cold_lru, false, kLru, kNumBlocks)->Name("hit_cold_lru");
BENCHMARK_CAPTURE(Hit, cold_10k, false, kAdaptive, 10'000)->Name("hit_cold_10k");
BENCHMARK_CAPTURE(Hit, cold_1m, false, kAdaptive, 1'000'000)->Name("hit_cold_1m");

// Prompts that the cache has never seen. Renew() replaces all of the prompts while the benchmark
// timer is stopped.
struct NewPrompts {
  explicit NewPrompts(const KvCacheManager& cache) : prompts(cache, kPromptsPerStop) {}

  void Renew(const KvCacheManager& cache) {
    for (size_t i = 0; i < kPromptsPerStop; ++i) {
      BlockTable& table = prompts.tables[i];
      // A new first token changes the hash of every block of the prompt.
      prompts.tokens[i].front() = --number;
      table.hashes.clear();
      cache.hasher().Extend(table.root, prompts.tokens[i], table.hashes);
    }
  }
  Prompts prompts;
  TokenId number = 0;
};

// Measures the allocation of blocks in a full cache. Each allocation evicts a cached block of an
// older prompt.
void AllocateEvict(benchmark::State& state, EvictionPolicyKind policy, int64_t num_blocks) {
  FullCache full(num_blocks, policy);
  NewPrompts fresh(full.cache);
  Time now;
  for (auto _ : state) {
    state.PauseTiming();
    fresh.Renew(full.cache);
    state.ResumeTiming();
    for (BlockTable& table : fresh.prompts.tables) {
      full.cache.Advance(now += kTimePerPrompt);
      INCIPIT_CHECK(full.cache.AllocateSlots(table, {}, kPromptTokens));
    }
    state.PauseTiming();
    for (size_t i = 0; i < kPromptsPerStop; ++i) {
      BlockTable& table = fresh.prompts.tables[i];
      full.cache.CacheBlocks(table, fresh.prompts.tokens[i], kPromptTokens);
      full.cache.Free(table);
    }
    state.ResumeTiming();
  }
  CountItems(state, kPromptsPerStop * kPromptBlocks);
  state.counters["bytes_per_block"] =
      static_cast<double>(full.cache.num_metadata_bytes()) / static_cast<double>(num_blocks);
}
BENCHMARK_CAPTURE(AllocateEvict, lru, kLru, kNumBlocks)->Name("allocate_evict_lru");
BENCHMARK_CAPTURE(AllocateEvict, adaptive, kAdaptive, kNumBlocks)->Name("allocate_evict_adaptive");
BENCHMARK_CAPTURE(AllocateEvict, adaptive_10k, kAdaptive, 10'000)
    ->Name("allocate_evict_adaptive_10k");
BENCHMARK_CAPTURE(AllocateEvict, adaptive_1m, kAdaptive, 1'000'000)
    ->Name("allocate_evict_adaptive_1m");

// Measures how long the cache needs to make the new blocks of a prompt findable for lookups
// (Announce and CacheBlocks). The hashes of the blocks are computed before the measurement.
void Publish(benchmark::State& state, int64_t num_blocks) {
  FullCache full(num_blocks, kAdaptive);
  NewPrompts fresh(full.cache);
  for (auto _ : state) {
    state.PauseTiming();
    fresh.Renew(full.cache);
    for (BlockTable& table : fresh.prompts.tables) {
      INCIPIT_CHECK(full.cache.AllocateSlots(table, {}, kPromptTokens));
    }
    state.ResumeTiming();
    for (size_t i = 0; i < kPromptsPerStop; ++i) {
      BlockTable& table = fresh.prompts.tables[i];
      const auto tokens = std::span(fresh.prompts.tokens[i]).first(kPromptTokens);
      full.cache.Announce(table, tokens);
      full.cache.CacheBlocks(table, tokens, kPromptTokens);
    }
    state.PauseTiming();
    for (BlockTable& table : fresh.prompts.tables) full.cache.Free(table);
    state.ResumeTiming();
  }
  CountItems(state, kPromptsPerStop * kPromptBlocks);
}
BENCHMARK_CAPTURE(Publish, all, kNumBlocks)->Name("publish");
BENCHMARK_CAPTURE(Publish, all_10k, 10'000)->Name("publish_10k");
BENCHMARK_CAPTURE(Publish, all_1m, 1'000'000)->Name("publish_1m");

// Measures all cache operations, including hashing, for prompts without cached blocks. If
// `evicting` is true, the cache is full, and each new block evicts an older block. If `evicting` is
// false, the cache starts empty; a full cache is emptied outside the measured time.
void PromptAllMiss(benchmark::State& state, bool evicting) {
  constexpr int32_t kPromptsInPool = kNumBlocks / (kPromptBlocks + 1);
  auto cache = std::make_unique<KvCacheManager>(OptionsOf(kNumBlocks, kAdaptive));
  std::vector<TokenId> tokens = Prompt(0);
  BlockTable table = TableOf(*cache, tokens);
  TokenId number = 0;
  Time now;
  const auto pass = [&] {
    cache->Advance(now += kTimePerPrompt);
    tokens.front() = ++number;  // a new first token changes the hash of every block of the prompt
    table.hashes.clear();
    cache->hasher().Extend(table.root, tokens, table.hashes);
    const ComputedBlocks computed = cache->GetComputedBlocks(tokens, table);
    INCIPIT_CHECK(computed.blocks.empty());
    INCIPIT_CHECK(cache->AllocateSlots(table, {}, kPromptTokens + 1));
    cache->Announce(table, tokens);
    cache->CacheBlocks(table, tokens, kPromptTokens + 1);
    cache->Free(table);
  };
  for (int32_t i = 0; evicting && i <= kPromptsInPool; ++i) pass();
  for (auto _ : state) {
    pass();
    if (evicting || number % kPromptsInPool != 0) continue;
    state.PauseTiming();
    INCIPIT_CHECK(cache->ResetPrefixCache());
    state.ResumeTiming();
  }
  CountItems(state, 1);
}
BENCHMARK_CAPTURE(PromptAllMiss, evicting, true)
    ->Name("prompt_4096_all_miss")
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(PromptAllMiss, empty, false)
    ->Name("prompt_4096_all_miss_empty_pool")
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
