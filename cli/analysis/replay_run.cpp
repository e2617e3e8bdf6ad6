#include "cli/analysis/replay_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/types.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {
namespace {

// Maximum arrival time of a request, in seconds after the first request. Larger times are replaced
// by this maximum, because a clock in nanoseconds overflows at 9.2e9 seconds.
constexpr double kReplaySecondsMax = 1e9;

// Builds the token ids of a prompt for KvCacheManager. In a log of hash ids, one token stands for
// one block, and equal blocks become equal tokens.
class PromptTokens {
 public:
  PromptTokens(const BlockLog& log, TraceForm form) : log_(log), form_(form) {}

  int32_t block_size() const { return form_ == TraceForm::kHashIds ? 1 : log_.block_tokens(); }
  // Returns the tokens of the first `num_blocks` prompt blocks of `request`, and one more token.
  // KvCacheManager never finds the last token of a prompt. With the additional token, it can find
  // all these blocks. The result is valid until the next call of Of().
  std::span<const TokenId> Of(size_t request, size_t num_blocks) {
    const auto chain = log_.chain(request).first(num_blocks);
    const auto block_size = static_cast<size_t>(this->block_size());
    tokens_.resize(num_blocks * block_size + 1);
    TokenId* to = tokens_.data();
    for (const BlockNode node : chain) {
      if (form_ == TraceForm::kHashIds) {
        *to = static_cast<TokenId>(node);
      } else {
        INCIPIT_CHECK(log_.content(node).size() == block_size * sizeof(TokenId));
        std::memcpy(to, log_.content(node).data(), block_size * sizeof(TokenId));
      }
      to += block_size;
    }
    return tokens_;
  }

 private:
  const BlockLog& log_;
  const TraceForm form_;
  std::vector<TokenId> tokens_;
};

// The lookups, loads and stores of the requests of a log in a simulated disk. The key of a chunk is
// the number of its last block (BlockNode), which identifies the whole prefix.
class DiskReplay {
 public:
  DiskReplay(const BlockLog& log, const ReplayDisk& options)
      : log_(log), view_(log, 1), options_(options), disk_(DiskOptions(log, options)) {}

  // Loads the chunks of the first `num_blocks` prompt blocks of request `r`, after the first
  // `num_found` blocks, until a chunk is not on the disk. Then stores all other chunks of the
  // request that the disk does not have. Adds the loaded blocks to `result`.
  void Serve(size_t r, int64_t num_found, int64_t num_blocks, ReplayResult& result) {
    const auto chain = log_.chain(r);
    const int64_t size = options_.blocks_per_chunk;
    const double now = log_.request(r).time;
    const auto key = [&](int64_t chunk) {
      return chain[static_cast<size_t>((chunk + 1) * size - 1)];
    };
    disk_.Advance(now);
    int64_t chunk = 0;
    for (; chunk < num_found / size; ++chunk) disk_.Store(key(chunk), now);
    for (; (chunk + 1) * size <= num_blocks && disk_.Has(key(chunk)); ++chunk) {
      disk_.Load(key(chunk));
    }
    const int64_t num_ready = std::max(num_found, chunk * size);
    const int64_t num_ready_tokens = view_.prefix_tokens(r, num_ready);
    result.disk_hit_blocks += num_ready - num_found;
    result.disk_hit_tokens += num_ready_tokens - view_.prefix_tokens(r, num_found);
    for (; (chunk + 1) * size <= num_blocks; ++chunk) {
      const int64_t num_computed = view_.prefix_tokens(r, (chunk + 1) * size) - num_ready_tokens;
      disk_.Store(key(chunk), now + PrefillSeconds(num_computed));
    }
  }

  void Finish(ReplayResult& result) {
    disk_.Advance(std::numeric_limits<double>::infinity());
    result.disk = disk_.counts();
  }

 private:
  static SimulatedDiskOptions DiskOptions(const BlockLog& log, const ReplayDisk& options) {
    SimulatedDiskOptions disk = options.disk;
    disk.chunks_max = std::max<int64_t>(1, CountChunks(log, options.blocks_per_chunk));
    return disk;
  }
  double PrefillSeconds(int64_t num_tokens) const {
    if (options_.prefill_tokens_per_s == 0) return 0;
    return static_cast<double>(num_tokens) / options_.prefill_tokens_per_s;
  }

  const BlockLog& log_;
  const BlockView view_;
  const ReplayDisk options_;
  SimulatedDisk disk_;
};

KvCacheOptions ManagerOptions(const BlockLog& log, const ReplayOptions& options) {
  size_t longest = 0;
  for (size_t r = 0; r < log.num_requests(); ++r) longest = std::max(longest, log.chain(r).size());
  // Limit the capacity to the number of distinct blocks in the log, because a larger cache has no
  // more hits.
  const int64_t capacity =
      std::clamp<int64_t>(static_cast<int64_t>(log.num_nodes()), 1, options.capacity);
  const int64_t beside =
      options.make_room_first ? 0 : std::min(static_cast<int64_t>(longest), capacity);
  return {.num_blocks = static_cast<int32_t>(capacity + beside),
          .block_size = PromptTokens(log, options.form).block_size(),
          .policy = options.policy,
          .policy_capacity = static_cast<int32_t>(capacity),
          .policy_block_size = log.block_tokens()};
}

}  // namespace

ReplayResult ReplayPolicy(const BlockLog& log, const ReplayOptions& options) {
  INCIPIT_CHECK(options.capacity >= 1);
  const KvCacheOptions manager_options = ManagerOptions(log, options);
  KvCacheManager manager(manager_options);
  const auto capacity = static_cast<size_t>(manager_options.policy_capacity);
  const BlockView view(log, 1);
  std::optional<DiskReplay> disk;
  if (options.disk) disk.emplace(log, *options.disk);
  PromptTokens prompts(log, options.form);
  BlockTable table;
  table.root = manager.hasher().Root({});
  ReplayResult result = {.policy = options.policy};
  for (size_t r = 0; r < log.num_requests(); ++r) {
    const size_t num_blocks = std::min(log.chain(r).size(), capacity);
    if (num_blocks == 0) continue;
    const auto tokens = prompts.Of(r, num_blocks);
    const auto stored = tokens.first(tokens.size() - 1);
    const auto num_stored = static_cast<int32_t>(stored.size());
    manager.Advance(Time{} + FromSeconds(std::min(log.request(r).time, kReplaySecondsMax)));
    table.hashes.clear();
    manager.hasher().Extend(table.root, stored, table.hashes);
    const ComputedBlocks found = manager.GetComputedBlocks(tokens, table, PartialMatch::kNo);
    const auto num_found = static_cast<int64_t>(found.blocks.size());
    result.hit_blocks += num_found;
    result.hit_tokens += view.prefix_tokens(r, num_found);
    if (disk) disk->Serve(r, num_found, static_cast<int64_t>(num_blocks), result);
    INCIPIT_CHECK(manager.AllocateSlots(table, found, num_stored));
    manager.CacheBlocks(table, stored, num_stored);
    manager.Free(table);
    if (!options.make_room_first) manager.EvictTo(manager_options.policy_capacity);
  }
  if (disk) disk->Finish(result);
  const KvCacheStats stats = manager.TakeStats();
  result.evictions = stats.evictions.total();
  result.regret = stats.regret_blocks;
  return result;
}

int64_t CountChunks(const BlockLog& log, int32_t blocks_per_chunk) {
  const BlockView view(log, blocks_per_chunk);
  std::vector<bool> ends_chunk(log.num_nodes());
  for (size_t r = 0; r < log.num_requests(); ++r) {
    for (int64_t i = 0; i < view.num_blocks(r); ++i) ends_chunk[view.block(r, i)] = true;
  }
  return std::ranges::count(ends_chunk, true);
}

}  // namespace incipit
