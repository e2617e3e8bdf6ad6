#include "cli/analysis/replay_run.h"

#include <algorithm>
#include <cstring>
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
    INCIPIT_CHECK(manager.AllocateSlots(table, found, num_stored));
    manager.CacheBlocks(table, stored, num_stored);
    manager.Free(table);
    if (!options.make_room_first) manager.EvictTo(manager_options.policy_capacity);
  }
  const KvCacheStats stats = manager.TakeStats();
  result.evictions = stats.evictions.total();
  result.regret = stats.regret_blocks;
  return result;
}

}  // namespace incipit
