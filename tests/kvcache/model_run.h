// Makes the same random calls to the cache and to a naive cache, and compares both after each call.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "tests/kvcache/naive_cache.h"
#include "tests/support/event_mirror.h"

namespace incipit {

struct LiveSequence {
  std::vector<TokenId> tokens;
  BlockTable table;
  NaiveTable naive;
  int32_t num_computed = 0;
  // Number of computed tokens after the step that is planned for the sequence.
  int32_t num_target = 0;
  bool planned = false;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
};

// Returns a number with which the caller chooses one of `count` possibilities. The caller takes the
// number modulo `count`.
using Choices = std::function<uint64_t(uint32_t count)>;

class ModelRun {
 public:
  ModelRun(Choices choices, EvictionPolicyKind policy)
      : choose_(std::move(choices)),
        options_(RandomOptions(policy)),
        cache_(options_, seams_),
        naive_(options_, seams_, cache_) {
    alphabet_ = Pick(1, 3);
    has_hints_ = Chance(70);
    listens_ = Chance(50);
    if (listens_) Listen();
    cache_.Advance(Time{});
  }
  // Makes `num_calls` random calls. Returns the first error, or an empty string.
  std::string Run(int32_t num_calls);
  std::string RunWhile(const std::function<bool()>& goes_on);

  int64_t num_victims() const { return naive_.num_victims; }
  int64_t num_retained_victims() const { return naive_.num_retained_victims; }
  int64_t num_expired() const { return naive_.num_expired; }
  int64_t num_copies = 0, num_shared_pending = 0, num_aborts = 0, num_forks = 0, num_resets = 0;

 private:
  int32_t Pick(int32_t lo, int32_t hi) {
    const auto count = static_cast<uint32_t>(hi - lo) + 1;
    return lo + static_cast<int32_t>(choose_(count) % count);
  }
  bool Chance(int32_t percent) { return Pick(0, 99) < percent; }
  KvCacheOptions RandomOptions(EvictionPolicyKind policy);
  void Expect(bool condition, std::string_view message) {
    if (!condition && error_.empty()) error_ = message;
  }
  LiveSequence* PickSequence(bool planned);
  std::vector<const BlockTable*> Tables() const;
  void Compare();
  void Listen();
  void CompareEvents();
  void CompareStats();

  void Call();
  void Submit();
  Retention RandomHint();
  void Admit(LiveSequence& sequence);
  void CheckMiss(const LiveSequence& sequence, const ComputedBlocks& computed);
  void CheckCopySource(const LiveSequence& sequence, const ComputedBlocks& computed,
                       const NaiveMatch& match);
  void Continue(LiveSequence& sequence);
  void Planned(LiveSequence& sequence, int32_t num_target);
  void Commit();
  void Abort();
  void Unpublish(const LiveSequence& sequence);
  void Leave(LiveSequence& sequence);
  void End(LiveSequence& sequence);
  void Free(LiveSequence& sequence);
  void Fork(const LiveSequence& parent);
  void MoveTime();

  Choices choose_;
  KvCacheSeams seams_;
  KvCacheOptions options_;
  KvCacheManager cache_;
  NaiveCache naive_;
  int32_t alphabet_ = 2;
  bool has_hints_ = false, listens_ = false, listens_late_ = false;
  EventMirror mirror_;
  // Random number generator for the restarts of the event log. Without a separate generator,
  // restarts would change the random numbers of `choose_`, and thus the calls.
  std::minstd_rand listener_random_{1};
  std::list<LiveSequence> sequences_;
  std::vector<LiveSequence*> step_;  // sequences of the planned step, in the order of planning
  std::vector<std::vector<TokenId>> texts_;
  Duration now_{};
  KvCacheStats stats_;
  std::string error_;
};

}  // namespace incipit
