#include "kvcache/policies/adaptive_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kvcache/policies/run_length.h"

namespace incipit {
namespace {

// Number of tokens in one unit. Other constants of the policy count units instead of blocks,
// because the number of tokens in a block is an option.
constexpr int32_t kTokensPerUnit = 512;

// An epoch is the time between two updates of the statistics. An epoch ends when the blocks used in
// the epoch hold 1 / kEpochsPerCapacity of the tokens of a full cache. The minimum is
// kUnitsPerEpochMin * kTokensPerUnit tokens.
constexpr int32_t kEpochsPerCapacity = 32, kUnitsPerEpochMin = 16;

// The policy remembers evicted blocks in a table. The table has kGhostRuns entries for every
// kTokensPerUnit tokens that the cache can hold.
constexpr double kGhostRuns = 1;

// If more than this number of requests used a block, the policy assumes that many prompts begin
// with this block, for example with a system prompt.
constexpr int kPrefixUses = 16;

// If plain LRU would have had many more hits than this policy, the policy multiplies the counts of
// past block uses by this factor.
constexpr double kKeptWhenFooled = 0.25;

constexpr double kMeanStep = 0.01;

// Maximum age of a cached block. The age is the number of uses of all blocks since the last use of
// this block. Greater ages are lowered, because 32-bit time stamps would wrap.
constexpr uint32_t kAgeMax = uint32_t{1} << 30;

uint32_t UnitTouches(int32_t block_size) {
  return std::bit_floor(static_cast<uint32_t>(std::max(1, kTokensPerUnit / block_size)));
}

uint32_t EpochTouches(int32_t capacity, int32_t block_size) {
  const uint32_t least = kUnitsPerEpochMin * UnitTouches(block_size);
  return std::bit_floor(std::max(least, static_cast<uint32_t>(capacity / kEpochsPerCapacity)));
}

int64_t GhostRunsFor(int32_t capacity, int32_t block_size) {
  const double units = static_cast<double>(capacity) / UnitTouches(block_size);
  return std::max<int64_t>(1, static_cast<int64_t>(kGhostRuns * units));
}

uint8_t PlusOne(uint8_t count) { return count == 255 ? count : static_cast<uint8_t>(count + 1); }

}  // namespace

AdaptivePolicy::AdaptivePolicy(std::span<Block> blocks, int32_t capacity, int32_t block_size,
                               uint64_t first_touch)
    : blocks_(blocks),
      clock_(first_touch, UnitTouches(block_size), EpochTouches(capacity, block_size)),
      paced_clock_(clock_),
      statistics_(clock_, paced_clock_, capacity),
      guard_(clock_, capacity),
      ghosts_(GhostRunsFor(capacity, block_size), clock_),
      records_(blocks.size()) {}

void AdaptivePolicy::PassTime() {
  if (touches_to_come_ == 0) return;
  const uint64_t epoch = clock_.epoch();
  paced_clock_.Advance(touches_to_come_);
  clock_.Advance(touches_to_come_);
  touches_to_come_ = 0;
  if (clock_.epoch() == epoch) return;
  guard_.BeginEpoch();
  statistics_.BeginEpoch(mean_run_);
  RestrainAncient();
}

// Lowers the ages of very old cached blocks, and forgets old evicted blocks, so that their 32-bit
// time stamps do not wrap.
void AdaptivePolicy::RestrainAncient() {
  while (const auto ancient = ghosts_.ForgetAncient()) ForgetGhosts(*ancient);
  // Each call of RestrainAncient() examines 1 / num_epochs of all blocks.
  const size_t num_epochs = kAgeMax / 4 / clock_.epoch_touches() + 1;
  for (size_t i = 0; i < records_.size() / num_epochs + 1; ++i) {
    Record& record = records_[next_restrained_];
    next_restrained_ = next_restrained_ + 1 == records_.size() ? 0 : next_restrained_ + 1;
    if (record.list_state == kElsewhere || clock_.AgeOf(record.last_use) <= kAgeMax) continue;
    const float weight = RunWeightOf(record.run_code);
    statistics_.Leave(record.reuse_class, record.last_use, weight);
    record.last_use = clock_.stamp() - kAgeMax / 2;
    statistics_.Enter(record.reuse_class, record.last_use, weight);
  }
}

void AdaptivePolicy::Suffer(int32_t lru_hits, int32_t own_hits) {
  if (guard_.Compare(lru_hits, own_hits)) statistics_.Forget(kKeptWhenFooled);
}

void AdaptivePolicy::Use(std::span<const BlockId> found, SequenceUse& use) {
  PassTime();
  ghosts_.EndRun();
  choice_ = {};
  const bool begins = !std::exchange(use.has_begun, true);
  if (found.empty()) return;
  int32_t lru_hits = 0, own_hits = 0;
  // A group contains the blocks that one request released together. runs_reused: number of groups
  // that are reused for the first time (half of a group counts as 0.5). ages: sum of the ages of
  // these groups (block uses since the last use of the group).
  double runs_reused = 0, ages = 0;
  size_t shared_end = 0;
  uint8_t turn_seen = use.turn_seen;
  for (size_t begin = 0; begin < found.size();) {
    const Record first = RecordOf(found[begin]);
    const size_t end = begin + TakeUp(found.subspan(begin), turn_seen);
    const auto length = static_cast<int32_t>(end - begin);
    if (RecordOf(found[begin]).uses > kPrefixUses) shared_end = end;
    begin = end;
    if (first.list_state == kElsewhere) continue;
    LeaveAtRisk(first, length);
    const int age_class = paced_clock_.AgeClassOf(first.last_use);
    const float weight = static_cast<float>(length) * RunWeightOf(first.run_code);
    statistics_.CountReuse(first.reuse_class, age_class, weight);
    if (IsUsedOnce(first.reuse_class)) {
      const float part = weight * RunWeightOf(first.run_code);
      runs_reused += part;
      ages += part * MeanAgeOf(age_class);
    }
    use.lru_streak = guard_.WouldHold(first.last_use);
    if (use.lru_streak) lru_hits += length;
    own_hits += length;
  }
  Suffer(lru_hits, own_hits);
  // Set use.turn_seen and use.prefix only in the first call of Use() for a sequence.
  if (!begins) return;
  use.turn_seen = turn_seen;
  use.prefix = PrefixIn(found.first(shared_end), turn_seen + 1);
  if (runs_reused == 0) return;
  const auto part = static_cast<float>(runs_reused);
  one_off_prefixes_.CountReuse(use.prefix, part, ages / runs_reused);
}

// Returns a hash of the common prefix of a prompt (a start of many prompts, such as a system
// prompt), or 0 if there is none. The common prefix ends with the last of the `blocks` that more
// than kPrefixUses requests used. Blocks that only one conversation used are ignored.
uint32_t AdaptivePolicy::PrefixIn(std::span<const BlockId> blocks, int turn) const {
  for (size_t i = blocks.size(); i-- > 0;) {
    const Record& record = records_[static_cast<size_t>(blocks[i])];
    if (record.uses <= kPrefixUses || IsOfSession(record.uses, record.born, turn)) continue;
    return static_cast<uint32_t>(At(blocks_, blocks[i]).hash.prefix());
  }
  return 0;
}

// Returns the age in the middle of the age range with the index `age_class`. The age of a block is
// the number of uses of any blocks since the last use of this block.
double AdaptivePolicy::MeanAgeOf(int age_class) const {
  const double begin = TouchClock::BeginOf(age_class), end = TouchClock::BeginOf(age_class + 1);
  return (begin + end) / 2 / clock_.units_per_touch();
}

// Takes blocks out of the eviction order, from the start of `found` on. Stops before a block whose
// past uses differ from those of found[0]. Counts one use of each block that is taken out. Returns
// the number of these blocks.
//
// Sets `turn` to the maximum of `turn` and the turns of these blocks. The turn of a block is the
// number of the request that first computed the block (1: first request of its conversation).
size_t AdaptivePolicy::TakeUp(std::span<const BlockId> found, uint8_t& turn) {
  const Record first = RecordOf(found.front());
  size_t length = 0;
  do {
    length += TakeUpNeighbours(found.subspan(length), turn);
  } while (length < found.size() && RecordOf(found[length]).IsUsedLike(first));
  return length;
}

// Takes blocks out of the eviction order, from the start of `found` on, with one list operation.
// Stops before a block whose past uses differ from those of found[0], or that is not next to the
// previous block in the eviction order. Counts uses, sets `turn` and returns a number as TakeUp()
// does.
size_t AdaptivePolicy::TakeUpNeighbours(std::span<const BlockId> found, uint8_t& turn) {
  const Record first = RecordOf(found.front());
  const bool listed = first.list_state == kListed;
  Record* const records = records_.data();
  const Block* const blocks = blocks_.data();
  unsigned last_turn = turn;
  size_t length = 0;
  while (true) {
    const auto id = static_cast<size_t>(found[length++]);
    Record& record = records[id];
    last_turn = std::max<unsigned>(last_turn, record.born);
    record.list_state = kElsewhere;
    record.uses = PlusOne(record.uses);
    if (length == found.size()) break;
    const BlockId next = found[length];
    if (!records[static_cast<size_t>(next)].IsListedLike(first)) break;
    if (listed && blocks[id].prev != next) break;
  }
  turn = static_cast<uint8_t>(last_turn);
  if (listed) ListOf(first).RemoveRange(blocks_, found[length - 1], found.front());
  return length;
}

void AdaptivePolicy::LeaveAtRisk(const Record& record, int32_t num_blocks) {
  statistics_.Leave(record.reuse_class, record.last_use,
                    static_cast<float>(num_blocks) * RunWeightOf(record.run_code));
  guard_.Leave(record.last_use, num_blocks);
}

void AdaptivePolicy::Add(BlockId id, BlockOrigin origin, SequenceUse& use) {
  Record& record = RecordOf(id);
  if (!use.past_known && MeetGhosts(id, use)) {
    record.uses = PlusOne(use.ghost_uses);
    record.born = use.ghost_born;
    const float weight = RunWeightOf(use.ghost_run);
    statistics_.CountReuse(use.ghost_class, use.ghost_age, weight);
    if (IsUsedOnce(use.ghost_class)) {
      one_off_prefixes_.CountReuse(use.prefix, weight * weight, MeanAgeOf(use.ghost_age));
    }
    if (use.lru_streak) Suffer(1, 0);
    return;
  }
  use.past_known = true;
  if (origin == BlockOrigin::kLoaded) {
    // An earlier request computed the block: at the turn of the previous block, or at the first
    // turn of the conversation.
    record.uses = 2;
    record.born = use.turn_seen = std::max<uint8_t>(use.turn_seen, 1);
    return;
  }
  record.uses = 1;
  record.born = PlusOne(use.turn_seen);
}

// Returns true if the policy remembers the eviction of block `id`. Then also copies the stored data
// of the block, such as its number of uses, to `use`.
bool AdaptivePolicy::MeetGhosts(BlockId id, SequenceUse& use) {
  if (use.ghosts_left > 0) {
    --use.ghosts_left;
    return true;
  }
  PassTime();
  const auto run = ghosts_.Take(At(blocks_, id).hash.prefix());
  if (!run) return false;
  const int reuse_class = ReuseClassOf(run->uses, run->born, run->is_second_family);
  const auto length = static_cast<float>(run->length);
  statistics_.Leave(reuse_class, run->last_use, length * RunWeightOf(run->run_code));
  guard_.Leave(run->last_use, run->length);
  use.lru_streak = use.lru_streak && guard_.WouldHold(run->last_use);
  use.turn_seen = std::max(use.turn_seen, run->born);
  use.ghosts_left = run->length - 1;
  use.ghost_uses = run->uses;
  use.ghost_born = run->born;
  use.ghost_class = static_cast<uint8_t>(reuse_class);
  use.ghost_age = static_cast<uint8_t>(paced_clock_.AgeClassOf(run->last_use));
  use.ghost_run = run->run_code;
  return true;
}

void AdaptivePolicy::Release(std::span<const BlockId> freed, const SequenceUse& use) {
  PassTime();
  ghosts_.EndRun();
  choice_ = {};
  const int turn = use.turn_seen + 1;
  int num_runs = 0;
  for (size_t end = freed.size(); end > 0;) {
    const Record& last = RecordOf(freed[end - 1]);
    const int reuse_class = ReuseClassOf(last.uses, last.born, turn);
    const auto is_alike = [&](BlockId id) {
      const Record& record = RecordOf(id);
      return record.IsCountedLike(last) ||
             ReuseClassOf(record.uses, record.born, turn) == reuse_class;
    };
    size_t begin = end - 1;
    while (begin > 0 && is_alike(freed[begin - 1])) --begin;
    // If the blocks are released because their retention hint ends, use.has_begun is false. These
    // blocks do not count as new.
    const bool is_new = IsUsedOnce(reuse_class) && use.has_begun;
    const bool is_one_off = is_new && one_off_prefixes_.Contains(use.prefix);
    if (is_new) one_off_prefixes_.CountNew(use.prefix, paced_clock_.now());
    Enter(freed.subspan(begin, end - begin), is_one_off ? kOneOffClass : reuse_class);
    ++num_runs;
    end = begin;
  }
  if (num_runs == 0) return;
  const auto num_blocks = static_cast<double>(freed.size());
  mean_run_ += kMeanStep * (num_blocks / num_runs - mean_run_);
  guard_.CountRequest(num_blocks);
  touches_to_come_ = freed.size();
}

void AdaptivePolicy::Enter(std::span<const BlockId> run, int reuse_class) {
  const auto length = static_cast<int32_t>(run.size());
  const uint8_t run_code = RunCodeOf(static_cast<uint32_t>(length));
  const TouchClock::Stamp now = clock_.stamp();
  Record entered = {.last_use = now, .run_code = run_code, .list_state = kListed};
  entered.reuse_class = static_cast<uint8_t>(reuse_class) & 31;
  lists_[static_cast<size_t>(reuse_class)].PushBackReversed(blocks_, run, [&](BlockId id) {
    Record& record = RecordOf(id);
    entered.uses = record.uses;
    entered.born = record.born;
    record = entered;  // one 8-byte store writes all fields of the record
  });
  statistics_.Enter(reuse_class, now, static_cast<float>(length) * RunWeightOf(run_code));
  guard_.Enter(now, length);
}

void AdaptivePolicy::Remove(BlockId id) {
  ghosts_.EndRun();
  choice_ = {};
  Record& record = RecordOf(id);
  if (record.list_state == kListed) ListOf(record).Remove(blocks_, id);
  record.list_state = kElsewhere;
  LeaveAtRisk(record, 1);
}

void AdaptivePolicy::Park(BlockId id, ListState list_state) {
  Record& record = RecordOf(id);
  ListOf(record).Remove(blocks_, id);
  record.list_state = list_state;
}

void AdaptivePolicy::OnChildless(BlockId id) {
  Record& record = RecordOf(id);
  if (record.list_state != kParkedOldest && record.list_state != kParkedNewest) return;
  const bool newest = record.list_state == kParkedNewest;
  if (newest) {
    ListOf(record).PushBack(blocks_, id);
  } else {
    ListOf(record).PushFront(blocks_, id);
  }
  record.list_state = kListed;
  const bool is_like_choice = choice_.reuse_class == record.reuse_class &&
                              choice_.newest == newest && choice_.last_use == record.last_use;
  if (!is_like_choice) choice_ = {};
}

BlockId AdaptivePolicy::EndOf(int reuse_class, bool newest) {
  BlockList& list = lists_[static_cast<size_t>(reuse_class)];
  while (true) {
    const BlockId id = newest ? list.back : list.front;
    if (id == kNoBlock || !At(blocks_, id).is_needed(id)) return id;
    Park(id, newest ? kParkedNewest : kParkedOldest);
  }
}

AdaptivePolicy::End AdaptivePolicy::LeastRecentlyUsed() {
  End least;
  for (int k = 0; k < kReuseClasses; ++k) {
    const BlockId id = EndOf(k, false);
    if (id == kNoBlock) continue;
    const TouchClock::Stamp last_use = RecordOf(id).last_use;
    if (least.block != kNoBlock && clock_.AgeOf(last_use) <= clock_.AgeOf(least.last_use)) continue;
    least = {.block = id, .reuse_class = k, .last_use = last_use};
  }
  return least;
}

// Returns the cached block with the lowest value: the expected number of hits per unit of time
// (ReuseStatistics::ValueOf). Considers only the oldest and the newest block of each list in
// `lists_`. If values are equal, prefers an oldest block.
AdaptivePolicy::End AdaptivePolicy::LeastWorth() {
  statistics_.Refresh();
  End least;
  float least_value = 0;
  for (int k = 0; k < kReuseClasses; ++k) {
    const BlockId id = EndOf(k, false);
    if (id == kNoBlock) continue;
    const TouchClock::Stamp last_use = RecordOf(id).last_use;
    const float value = statistics_.ValueOf(k, paced_clock_.AgeClassOf(last_use));
    const bool is_less =
        least.block == kNoBlock || value < least_value ||
        (value == least_value && clock_.AgeOf(last_use) > clock_.AgeOf(least.last_use));
    if (!is_less) continue;
    least = {.block = id, .reuse_class = k, .last_use = last_use};
    least_value = value;
  }
  for (int k = 0; k < kReuseClasses; ++k) {
    const auto value_of = [&](BlockId id) {
      return statistics_.ValueOf(k, paced_clock_.AgeClassOf(RecordOf(id).last_use));
    };
    const BlockId newest = lists_[static_cast<size_t>(k)].back;
    if (newest == kNoBlock || value_of(newest) >= least_value) continue;
    const BlockId id = EndOf(k, true);
    if (id == kNoBlock || value_of(id) >= least_value) continue;
    least = {.block = id, .reuse_class = k, .newest = true, .last_use = RecordOf(id).last_use};
    least_value = value_of(id);
  }
  return least;
}

// Returns true if the block at the list end `end` (oldest or newest block of a list) was last used
// at end.last_use. Evict() can then take this block without comparing all lists.
bool AdaptivePolicy::StillStands(const End& end) {
  if (end.reuse_class < 0) return false;
  const BlockId id = EndOf(end.reuse_class, end.newest);
  return id != kNoBlock && RecordOf(id).last_use == end.last_use;
}

BlockId AdaptivePolicy::Evict() {
  if (!StillStands(choice_)) choice_ = guard_.TakesOver() ? LeastRecentlyUsed() : LeastWorth();
  if (choice_.reuse_class < 0) return kNoBlock;
  const BlockId victim = EndOf(choice_.reuse_class, choice_.newest);
  Record& record = RecordOf(victim);
  ListOf(record).Remove(blocks_, victim);
  record.list_state = kElsewhere;
  const Block& block = At(blocks_, victim);
  const auto lost = ghosts_.Add(block.hash.prefix(), victim, block.parent,
                                {.last_use = record.last_use,
                                 .length = 1,
                                 .uses = record.uses,
                                 .born = record.born,
                                 .run_code = record.run_code,
                                 .is_second_family = IsSecondFamily(record.reuse_class)});
  if (lost) ForgetGhosts(*lost);
  record.uses = record.born = 0;
  return victim;
}

void AdaptivePolicy::ForgetGhosts(const GhostRun& run) {
  const int reuse_class = ReuseClassOf(run.uses, run.born, run.is_second_family);
  const float weight = static_cast<float>(run.length) * RunWeightOf(run.run_code);
  statistics_.Leave(reuse_class, run.last_use, weight);
  statistics_.CountForgotten(weight);
  guard_.Leave(run.last_use, run.length);
}

void AdaptivePolicy::Clear() {
  for (Record& record : records_) {
    if (record.list_state == kElsewhere) continue;
    record.list_state = kElsewhere;
    LeaveAtRisk(record, 1);
    record.uses = record.born = 0;
  }
  lists_ = {};
  ghosts_.EndRun();
  choice_ = {};
}

size_t AdaptivePolicy::num_bytes() const {
  return records_.size() * sizeof(Record) + ghosts_.num_bytes() + statistics_.num_bytes() +
         guard_.num_bytes() + sizeof(*this);
}

}  // namespace incipit
