#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/sim/simulation_run.h"

namespace incipit {
namespace {

// Returns true if `sequence` has ended, or must end when the step in flight is committed.
bool IsAtItsEnd(const Sequence& sequence) {
  return sequence.ended() ||
         (sequence.num_pending > 0 && sequence.length() == sequence.request().length_max());
}

// Returns true if the step in flight samples the first token of several choices of the request of
// `sequence`, or if `sequence` ends with the commit of this step. Such a sequence is in no step
// that is planned ahead.
bool SitsOut(const Sequence& sequence) {
  const auto is_unborn = [](const Sequence& choice) {
    return choice.state == SequenceState::kUnborn;
  };
  return sequence.end_at_commit ||
         (sequence.num_pending > 0 && std::ranges::any_of(sequence.group->sequences, is_unborn));
}

bool IsIn(const StepPlan& plan, const Sequence& sequence) {
  return std::ranges::count(plan.items, &sequence, &StepPlan::Item::sequence) > 0;
}

// Returns true if the latest plan admitted the sequence of `item`. A sequence that waited for the
// next part of its loads was admitted earlier, and has committed blocks.
bool IsAdmitted(const StepPlan::Item& item) {
  return item.sequence->admission_pending && item.sequence->num_in_flight == 1 &&
         item.sequence->table.num_committed == 0;
}

}  // namespace

void Simulation::PlanAndCheck() {
  std::vector<Sequence*> running_before;
  was_paused_.clear();
  std::map<const Sequence*, uint64_t> ids;  // ids of the requests of running_before
  was_passing_.clear();
  for (Sequence* sequence : scheduler_->running()) {
    if (sequence->request().deadline <= now_ || IsAtItsEnd(*sequence)) continue;
    if (SitsOut(*sequence)) continue;
    if (sequence->needs_next_part()) was_paused_.insert(sequence);
    running_before.push_back(sequence);
    ids[sequence] = static_cast<uint64_t>(sequence->request().id);
    if (sequence->is_passing) was_passing_.insert(sequence);
  }
  const int32_t num_in_flight = scheduler_->num_in_flight();
  scheduler_->Plan(now_, *plan_);
  counts_.preemptions += plan_->num_preemptions;
  TakeEvents();
  // The plan ends a running request whose first token cannot be computed in time, and TakeEvents
  // frees the request.
  std::erase_if(running_before, [&](Sequence* sequence) { return !live_.contains(ids[sequence]); });
  for (const auto& [id, request] : live_) {
    Expect(request.request().deadline > now_, "a request outlived its deadline");
  }
  if (plan_->items.empty()) {
    Expect(scheduler_->idle() || num_in_flight > 0 || scheduler_->num_loading() > 0,
           "nothing was planned");
    Expect(scheduler_->num_in_flight() == num_in_flight, "a step without tokens is in flight");
    // A preemption may be needed for the head, a waiting sequence that does not fit into the cache.
    // It may also be needed for a tenant below its share of the slots. A step with a preemption is
    // never planned while another step is in flight.
    const bool may_preempt =
        scheduler_->head() != nullptr || limits_.scheduling == SchedulingKind::kFair;
    const bool can_plan_ahead = !running_before.empty() && !may_preempt && was_paused_.empty() &&
                                NumBlocksNeeded(running_before) <= cache_->num_free();
    Expect(num_in_flight == 0 || !can_plan_ahead,
           "no second step is planned although free blocks suffice for it");
    return;
  }
  counts_.ahead += num_in_flight;
  if (num_in_flight > 0)
    Expect(plan_->num_preemptions == 0, "a second step was planned with a preemption");
  CheckBudgets();
  CheckComputedOnce();
  CheckOrder(running_before);
  CheckCache();
}

// Returns the number of free blocks that the next step of `sequences` needs.
int32_t Simulation::NumBlocksNeeded(const std::vector<Sequence*>& sequences) const {
  int32_t num_needed = 0;
  for (const Sequence* sequence : sequences) {
    const int32_t num_tokens = std::min(sequence->num_missing(), limits_.step_tokens_max);
    num_needed += cache_->BlocksNeeded(sequence->table, {}, sequence->num_planned + num_tokens);
  }
  return num_needed;
}

void Simulation::CheckBudgets() {
  const int32_t budget = limits_.step_tokens_max;
  int32_t num_tokens = 0, num_missing_blocks = 0;
  bool admits = false, continues_prompt = false;
  for (const StepPlan::Item& item : plan_->items) {
    const Sequence& sequence = *item.sequence;
    num_tokens += item.num_tokens;
    admits |= IsAdmitted(item);
    continues_prompt |= !IsAdmitted(item) && item.num_tokens > 1;
    counts_.fed += item.fed_sample >= 0;
    counts_.counted += item.fed_sample >= 0 && sequence.request().sampling.has_penalties();
    Expect(
        item.fed_sample < 0 || !SitsOut(sequence),
        "a second step was planned with a sequence that ends or starts choices in the first step");
    const int32_t token_end = item.first_token + item.num_tokens;
    Expect(item.num_tokens > 0 || item.num_loaded > 0, "an item without tokens");
    counts_.load_parts += item.num_tokens == 0;
    const bool is_loaded = item.num_loaded > 0 && sequence.num_in_flight == 1 &&
                           item.first_token - item.num_loaded == sequence.num_computed;
    Expect(item.first_token == sequence.num_computed || is_loaded || sequence.num_in_flight == 2,
           "a part of a step does not begin at the first token to compute");
    Expect(token_end < sequence.request().length_max(),
           "a part of a step reaches the maximum length of its sequence");
    Expect((item.fed_sample >= 0) == (token_end > sequence.num_tokens()), "fed what is known");
  }
  for (const Sequence* sequence : scheduler_->running()) {
    if (IsAtItsEnd(*sequence) && !IsIn(*plan_, *sequence)) continue;
    const int32_t length = std::max(sequence->num_tokens(), sequence->num_planned);
    num_missing_blocks += cache_->BlocksNeeded(sequence->table, {}, length);
    const bool sits_out = SitsOut(*sequence) && scheduler_->num_in_flight() == 2;
    const bool left_out = sequence->num_missing() == 1 && !IsIn(*plan_, *sequence) && !sits_out;
    counts_.sat_out += sits_out;
    Expect(!continues_prompt || !left_out,
           "a step has prompt tokens but leaves out a decoding sequence");
    Expect(!left_out || plan_->num_tokens >= budget,
           "a step with room for more tokens leaves out a decoding sequence");
  }
  Expect(num_tokens == plan_->num_tokens,
         "the number of tokens of a step is not the sum over its parts");
  Expect(num_tokens <= budget, "over the token budget");
  Expect(scheduler_->num_running() <= limits_.running_max, "too many running");
  Expect(!admits || num_missing_blocks <= cache_->num_free(),
         "a sequence was admitted, but running prompts lack free blocks");
}

// Checks that no sequence is admitted to compute a block that another running sequence has computed
// or is about to compute.
void Simulation::CheckComputedOnce() {
  if (collides_) return;
  const int32_t block_size = cache_->block_size();
  for (const StepPlan::Item& item : plan_->items) {
    const Sequence& sequence = *item.sequence;
    const Request& request = sequence.request();
    const int32_t block = item.first_token / block_size;
    const bool reads = request.read_cache && request.prompt_logprobs < 0;
    const bool whole = (block + 1) * block_size < sequence.num_tokens();
    if (!IsAdmitted(item) || !reads || !whole || !cache_options_.prefix_cache) continue;
    for (const Sequence* other : scheduler_->running()) {
      const auto& hashes = other->table.hashes;
      if (other == &sequence || static_cast<size_t>(block) >= hashes.size()) continue;
      if (other->ended()) continue;
      if (other->table.num_published < block) continue;
      // If a sequence computes NaN or infinite values, lookups do not find its blocks.
      const int32_t last = other->table.num_published > block ? block : block - 1;
      const bool publishes = last < 0 || cache_->pool().is_published(other->table.blocks[last]);
      const bool planned_first = std::ranges::none_of(
          plan_->items.begin() + (&item - plan_->items.data()), plan_->items.end(),
          [&](const StepPlan::Item& later) { return later.sequence == other; });
      if (!publishes || !planned_first) continue;
      Expect(hashes[block] != sequence.table.hashes[block], "a prefix is computed twice");
    }
  }
}

// Checks the guarantees of the scheduler about order: the earliest admitted sequence advances and
// is not preempted, and at most kOvertakenMax later sequences are admitted before a sequence. While
// the earliest admitted sequence waits for a part of its loads, the next sequence must advance.
void Simulation::CheckOrder(const std::vector<Sequence*>& running_before) {
  bool is_first = true;
  for (const Sequence* sequence : running_before) {
    if (was_passing_.contains(sequence)) continue;
    const bool is_preempted = sequence->state == SequenceState::kWaiting;
    Expect(!std::exchange(is_first, false) || !is_preempted,
           "the earliest admitted sequence was preempted");
    const bool still_waits = sequence->needs_next_part() && !IsIn(*plan_, *sequence);
    if (was_paused_.contains(sequence) && (is_preempted || still_waits)) continue;
    Expect(!is_preempted && IsIn(*plan_, *sequence),
           "a step does not advance the protected (earliest admitted) sequence");
    break;
  }
  for (const Sequence* sequence : scheduler_->running()) {
    Expect(!sequence->loads.is_paused || now_ < sequence->loads.wait_until,
           "a running sequence waits too long for loads from the tier");
  }
  int64_t num_waiting_tokens = 0;
  for (const auto& [id, request] : live_) {
    for (const Sequence& waiting : request.group->sequences) {
      if (waiting.state != SequenceState::kWaiting) continue;
      if (!request.group->admitted) num_waiting_tokens += request.group->num_prompt;
      Expect(waiting.table.blocks.empty() || &waiting == scheduler_->head(),
             "a waiting sequence holds blocks");
      Expect(!waiting.loads.is_waiting || now_ < waiting.loads.wait_until,
             "a sequence waits too long for loads from the tier");
      Expect(waiting.num_overtaken <= kOvertakenMax,
             "too many later sequences were admitted before a waiting sequence");
      Expect(waiting.producer == nullptr || waiting.producer->state == SequenceState::kRunning,
             "a sequence waits for a prefix that no running sequence computes");
      if (waiting.producer == nullptr) continue;
      Expect(request.request().read_cache, "a sequence waits for a prefix that it must not read");
      const int32_t num_announced = waiting.producer->table.num_published * cache_->block_size();
      Expect(num_announced < waiting.shared_tokens,
             "a sequence waits for a prefix, but a step computes the prefix already");
    }
  }
  Expect(scheduler_->num_waiting_prompt_tokens() == num_waiting_tokens,
         "the number of waiting prompt tokens is not the sum over the waiting requests");
}

// Checks that each block used by a step in flight has a user, so that the block cannot be evicted.
void Simulation::CheckHeld() {
  for (int32_t i = 0; i < scheduler_->num_in_flight(); ++i) {
    const incipit::Step& step = steps_[(oldest_ + static_cast<size_t>(i)) % 2].step;
    const auto is_held = [&](BlockId id) { return cache_->pool().num_users(id) > 0; };
    Expect(std::ranges::all_of(step.blocks, is_held),
           "a block that a step in flight needs has no user");
  }
}

void Simulation::CheckCache() {
  std::vector<const BlockTable*> tables;
  for (const Sequence* sequence : scheduler_->running()) {
    tables.push_back(&sequence->table);
    const int32_t block_size = cache_->block_size();
    const auto num_blocks = static_cast<int32_t>(sequence->table.blocks.size());
    Expect(sequence->ended() || num_blocks == (sequence->num_planned + block_size - 1) / block_size,
           "a sequence has more or fewer blocks than its planned tokens need");
  }
  if (scheduler_->head() != nullptr) tables.push_back(&scheduler_->head()->table);
  cache_->CheckInvariants(tables);
  // There are two tenants. The number of retained blocks of each tenant is limited to its share of
  // the cache.
  const double share_max = cache_options_.retention.tenant_share_max;
  const auto num_kept_max = 2 * static_cast<int32_t>(share_max * cache_options_.num_blocks);
  const bool only_high = rates_.low == 0 && rates_.life == 0;
  Expect(!only_high || cache_->pool().num_retained() <= num_kept_max, "more than its share");
  if (listens_) CheckEvents();
}

// Checks that all events so far and a snapshot of the cache describe the same blocks.
void Simulation::CheckEvents() {
  const auto block_size = static_cast<size_t>(cache_->block_size());
  Expect(mirror_.Apply(cache_->Events(), block_size), "an event without sense");
  cache_->ClearEvents();
  const KvSnapshot snapshot = cache_->Snapshot();
  EventMirror now;
  Expect(now.Apply({.events = snapshot.events, .tokens = snapshot.tokens}, block_size),
         "a snapshot without sense");
  Expect(now.prefixes() == mirror_.prefixes(),
         "the cache events describe other blocks than a snapshot of the cache");
}

// Checks why the cached prefix of an admitted request ends (AdmissionEvent::miss): the reason, the
// first block that was not cached, and the first token that differs from cached tokens.
void Simulation::CheckMiss(const ExpectedRequest& request, const AdmissionEvent& event) {
  const Request& asked = request.request();
  const int32_t block = event.num_cached_tokens / cache_->block_size();
  const bool reads = asked.read_cache && asked.prompt_logprobs < 0;
  const bool missed = reads && cache_options_.prefix_cache &&
                      (block + 1) * cache_->block_size() < event.num_prompt_tokens;
  Expect((event.miss.reason != MissReason::kNone) == missed,
         "the admission event has a wrong reason for the end of the cached prefix");
  if (!missed) return;
  Expect(event.miss.block == block,
         "the admission event names a wrong first block that was not cached");
  Expect(event.miss.differing_token >= event.num_cached_tokens,
         "the first differing prompt token is in the cached prefix");
  Expect(event.miss.evicted_ago <= now_.time_since_epoch(), "evicted before the beginning");
  const bool reported = event.miss.reason == MissReason::kEvicted && !collides_;
  Expect(!reported || HasComputed(request, (block + 1) * cache_->block_size()),
         "the missing block is called evicted, but was never computed");
}

void Simulation::TakeEvents() {
  const SchedulerEvents& events = scheduler_->events();
  const auto report = [&](RequestId id, const std::string& error) {
    if (error.empty()) return;
    Expect(false, fmt::format("request {}: {}", static_cast<uint64_t>(id), error));
  };
  const auto find = [&](RequestId id) -> ExpectedRequest* {
    const auto it = live_.find(static_cast<uint64_t>(id));
    Expect(it != live_.end(), "an event belongs to an unknown request");
    return it == live_.end() ? nullptr : &it->second;
  };
  for (const AdmissionEvent& event : events.admissions) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    report(event.request, request->Receive(event));
    CheckSource(*request, event.num_cached_tokens);
    CheckMiss(*request, event);
    const Request& asked = request->request();
    hits_reported_ += event.num_cached_tokens;
    Expect(event.num_loaded_tokens >= 0 && event.num_loaded_tokens <= event.num_cached_tokens,
           "more tokens were loaded than found");
    counts_.loaded_tokens += event.num_loaded_tokens;
    counts_.failed_loads += event.miss.reason == MissReason::kLoadFailed;
    queries_reported_ += asked.read_cache && asked.prompt_logprobs < 0;
  }
  for (const PromptLogprobsEvent& event : events.prompt_logprobs) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    report(event.request, request->Receive(event, result_.prompt_logprobs));
  }
  for (const TokenEvent& event : events.tokens) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    report(event.request, request->Receive(event, result_.logprobs, now_));
    counts_.expired += event.finish == FinishReason::kDeadline;
    counts_.failed += event.finish == FinishReason::kError;
    counts_.forks += event.choice > 0 && event.finish == FinishReason::kLength;
    if (event.finish == FinishReason::kError) {
      Expect(poisoned_, "a request failed, but no logits were NaN or infinite");
      CheckGone(*request);
    }
    if (event.finish == FinishReason::kStop || event.finish == FinishReason::kLength) {
      last_finished_ = request->TokensOf(event.choice);
      last_namespace_ = request->request().cache_namespace;
    } else if (event.choice > 0) {
      // A choice that starts allocates blocks and may evict blocks of `last_finished_`.
      last_finished_.clear();
    }
  }
  for (const RequestId id : events.ended) {
    const auto it = live_.find(static_cast<uint64_t>(id));
    if (it == live_.end() || !it->second.ended()) {
      Expect(false, "a request ended before all of its choices");
      return;
    }
    live_.erase(it);
  }
  scheduler_->ClearEvents();
  stats_ += cache_->TakeStats();
  std::vector<std::unique_ptr<SequenceGroup>> ended;
  scheduler_->TakeEnded(ended);
  num_groups_ -= std::ssize(ended);
  for (const auto& group : ended) {
    Expect(group->num_unended == 0 && !group->in_flight(),
           "TakeEnded returned a request that has not ended or is in a step in flight");
  }
}

// Checks that another request of the same namespace has computed the cached prefix.
void Simulation::CheckSource(const ExpectedRequest& request, int32_t num_cached) {
  Expect(num_cached == 0 || HasComputed(request, num_cached),
         "a cached prefix was never computed in the namespace of the request");
}

// Returns true if another request of the same namespace begins with the first `num_tokens` tokens
// of the prompt of `request`.
bool Simulation::HasComputed(const ExpectedRequest& request, int32_t num_tokens) {
  const std::vector<TokenId>& prompt = request.request().prompt;
  return std::ranges::any_of(texts_, [&](const Text& text) {
    return text.request != request.request().id &&
           namespaces_[text.request] == namespaces_[request.request().id] &&
           std::ranges::mismatch(text.tokens, prompt).in2 - prompt.begin() >= num_tokens;
  });
}

// Checks that lookups find no block of the prompt of a failed request. Skips the check if the
// request has received no token.
void Simulation::CheckGone(const ExpectedRequest& request) {
  if (!request.has_received()) return;
  Request probe = request.request();
  probe.num_choices = 1;
  const auto group = MakeSequenceGroup(std::make_shared<const Request>(std::move(probe)), *cache_);
  const Sequence& sequence = group->sequences.front();
  std::vector<TokenId> tokens = request.request().prompt;
  tokens.push_back(0);
  Expect(cache_->GetComputedBlocks(tokens, sequence.table, PartialMatch::kNo).num_tokens == 0,
         "a lookup finds a block of a request that failed");
  if (tier_ == nullptr) return;
  const auto num_blocks = static_cast<size_t>(tier_->shape().blocks_per_chunk);
  for (size_t end = num_blocks; end <= sequence.table.hashes.size(); end += num_blocks) {
    Expect(!tier_->Has(sequence.table.hashes[end - 1]),
           "the tier has a chunk of a request that failed");
  }
}

void Simulation::CheckEnd() {
  Expect(live_.empty(), "a request never ended");
  Expect(num_groups_ == 0, "TakeEnded has not returned all requests that ended");
  Expect(cache_->num_used() == 0, "blocks leaked");
  if (tier_ != nullptr) {
    Expect(tier_->num_tickets() == 0, "a load was never released");
    Expect(scheduler_->num_loading() == 0, "a sequence still waits for loads");
    counts_.loads += tier_->num_loads();
  }
  Expect(scheduler_->num_waiting_prompt_tokens() == 0,
         "no request is left, but the number of waiting prompt tokens is not 0");
  CheckCache();
  stats_ += cache_->TakeStats();
  if (!cache_options_.prefix_cache) queries_reported_ = 0;
  Expect(stats_.queries == queries_reported_,
         "the cache counted other lookups than the admission events");
  Expect(stats_.hit_tokens == hits_reported_,
         "the cache counted other cached prompt tokens than the admission events");
  Expect(stats_.stored_blocks + stats_.loaded_blocks >= stats_.evictions.total(),
         "the cache evicted more blocks than it stored");
  Expect(collides_ || stats_.collisions == 0, "a collision");
  counts_.hit_tokens += stats_.hit_tokens;
  counts_.evictions += stats_.evictions.total();
  counts_.low_priority += stats_.evictions.by_reason[1];
  counts_.lives_over += stats_.evictions.by_reason[2];
  counts_.copied_tokens += stats_.copied_tokens;
  counts_.regret += stats_.regret_blocks;
  counts_.collisions += stats_.collisions;
  if (!poisoned_ && !collides_) CheckLastIsThere();
  CheckAllCanBeTaken();
}

// Checks that the blocks of the choice that finished last are still cached. A lookup must find all
// its full blocks. With copy on write, a lookup of full blocks finds all their tokens except the
// last.
void Simulation::CheckLastIsThere() {
  if (last_finished_.empty() || !cache_options_.prefix_cache) return;
  const auto num_computed = static_cast<int32_t>(last_finished_.size()) - 1;
  const int32_t num_full = num_computed / cache_->block_size() * cache_->block_size();
  Request echo;
  echo.prompt.assign(last_finished_.begin(), last_finished_.end() - 1);
  echo.output_tokens_max = 1;
  echo.cache_namespace = last_namespace_;
  const auto group = MakeSequenceGroup(std::make_shared<const Request>(std::move(echo)), *cache_);
  const BlockTable& table = group->sequences.front().table;
  const auto num_found = [&](int32_t num_tokens) {
    const auto tokens = std::span(last_finished_).first(static_cast<size_t>(num_tokens));
    return cache_->GetComputedBlocks(tokens, table).num_tokens;
  };
  Expect(num_found(num_computed + 1) >= num_full,
         "a lookup does not find all full blocks of the choice that ended last");
  if (num_full == 0) return;
  const int32_t num_without_copy = num_full - cache_->block_size();
  Expect(num_found(num_full) == (cache_options_.copy_on_write ? num_full - 1 : num_without_copy),
         "a lookup of full blocks does not find the expected part of the last block");
}

// Checks that every block can be allocated at the end, and that no block stays retained for ever.
void Simulation::CheckAllCanBeTaken() {
  if (dice_.Chance(50)) {
    cache_->Advance(now_ + std::chrono::hours(1));
    CheckCache();
    Expect(rates_.low > 0 || cache_->pool().num_retained() == 0, "kept for ever");
  }
  BlockTable all;
  Expect(cache_->AllocateSlots(all, {}, static_cast<int32_t>(cache_->capacity_tokens())),
         "a block is lost");
  Expect(cache_->num_free() == 0, "a block is free although one sequence has all blocks");
  const BlockTable* const tables[] = {&all};
  cache_->CheckInvariants(tables);
  cache_->Free(all);
  Expect(cache_->num_cached() == 0,
         "a block can be found although all blocks were taken for other tokens");
  CheckCache();
}

}  // namespace incipit
