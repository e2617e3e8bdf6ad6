#include "kvcache/policies/ghost_runs.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace incipit {

GhostRuns::GhostRuns(int64_t num_runs, const TouchClock& clock)
    : clock_(clock),
      tick_shift_(std::max(0, std::countr_zero(clock.epoch_touches()) - kTicksPerEpochLog2)),
      sets_(static_cast<size_t>((num_runs + static_cast<int64_t>(kWays) - 1) /
                                static_cast<int64_t>(kWays))) {}

std::optional<GhostRun> GhostRuns::Add(uint64_t key, BlockId id, BlockId parent,
                                       const GhostRun& ghost) {
  GhostRun longer = ghost;
  longer.length = open_.length + 1;
  std::optional<GhostRun> lost;
  const bool continues =
      open_parent_ == id && open_.length > 0 && open_.length < GhostRun::kLengthMax &&
      open_.last_use == ghost.last_use && open_.uses == ghost.uses && open_.born == ghost.born &&
      open_.run_code == ghost.run_code && open_.is_second_family == ghost.is_second_family;
  if (!continues) {
    lost = Store();
    longer.length = 1;
  }
  open_ = longer;
  open_key_ = key;
  open_parent_ = parent;
  return lost;
}

// Stores `open_`, the latest group of evicted blocks, in `sets_`. Returns the older group that is
// overwritten, if any.
std::optional<GhostRun> GhostRuns::Store() {
  if (open_.length == 0) return std::nullopt;
  Entry* slot = &SetOf(open_key_, 0).entries[0];
  for (const int choice : {0, 1}) {
    for (Entry& entry : SetOf(open_key_, choice).entries) {
      if (slot->length == 0) break;
      if (entry.length == 0 || Worthlessness(entry) > Worthlessness(*slot)) slot = &entry;
    }
  }
  std::optional<GhostRun> lost;
  if (slot->length > 0) lost = Decoded(*slot);
  const uint64_t last_use = clock_.now() - clock_.AgeOf(open_.last_use);
  *slot = {.tag = TagOf(open_key_),
           .time = (last_use >> tick_shift_) & kTimeMask,
           .length = static_cast<uint64_t>(open_.length) & GhostRun::kLengthMax,
           .uses = open_.uses,
           .born = open_.born,
           .run_code = open_.run_code,
           .is_second_family = open_.is_second_family};
  open_ = {};
  return lost;
}

std::optional<GhostRun> GhostRuns::Take(uint64_t key) {
  if (open_.length > 0 && open_key_ == key) return std::exchange(open_, {});
  for (const int choice : {0, 1}) {
    for (Entry& entry : SetOf(key, choice).entries) {
      if (entry.length == 0 || entry.tag != TagOf(key)) continue;
      const GhostRun run = Decoded(entry);
      entry = {};
      return run;
    }
  }
  return std::nullopt;
}

GhostRun GhostRuns::Decoded(const Entry& entry) const {
  const uint64_t ticks = now_ticks() - AgeTicks(entry);
  return {.last_use = static_cast<TouchClock::Stamp>(ticks << tick_shift_),
          .length = static_cast<int32_t>(entry.length),
          .uses = static_cast<uint8_t>(entry.uses),
          .born = static_cast<uint8_t>(entry.born),
          .run_code = static_cast<uint8_t>(entry.run_code),
          .is_second_family = entry.is_second_family != 0};
}

std::optional<GhostRun> GhostRuns::ForgetAncient() {
  if (next_looked_at_ == looked_at_until_) {
    looked_at_until_ = next_looked_at_ + sets_.size() / kRounds + 1;
  }
  while (next_looked_at_ < looked_at_until_) {
    for (Entry& entry : sets_[next_looked_at_ % sets_.size()].entries) {
      if (entry.length == 0 || AgeTicks(entry) < kAncientTicks) continue;
      const GhostRun run = Decoded(entry);
      entry = {};
      return run;
    }
    ++next_looked_at_;
  }
  return std::nullopt;
}

}  // namespace incipit
