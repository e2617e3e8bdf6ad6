#include "tests/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/batch.h"
#include "scheduler/scheduler.h"
#include "tests/sim/expected_request.h"
#include "tests/support/fake_runner.h"

namespace incipit {
namespace {

constexpr int32_t kVocab = 50;

// Deterministic on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  // From lo to hi, both included.
  int32_t Pick(int32_t lo, int32_t hi) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return lo + static_cast<int32_t>(z % (static_cast<uint64_t>(hi - lo) + 1));
  }
  bool Chance(int32_t percent) { return Pick(0, 99) < percent; }

 private:
  uint64_t state_;
};

// How often what happens, in percent. Each kind is off in some runs, so that a fault that another
// kind would hide is seen.
struct Rates {
  int32_t arrival = 30, cancel = 0, cancel_in_flight = 0, abort = 0, poison = 0, reset = 0;
  int32_t deadline = 0, choices = 0, priority = 0, logprobs = 0, prompt_logprobs = 0;
  int32_t penalties = 0, no_read = 0, stop = 50, minimum = 0;
};

// Who is served first, said once more: the product's own order is what is checked.
bool ComesFirst(const Sequence& a, const Sequence& b) {
  const auto key = [](const Sequence& sequence) {
    const SequenceGroup& group = *sequence.group;
    return std::make_tuple(-group.priority, group.arrival, group.id, sequence.choice);
  };
  return key(a) < key(b);
}

class Simulation {
 public:
  Simulation(uint64_t seed, SimulationCounts& counts);
  std::string Run();

 private:
  void Expect(bool condition, std::string_view message) {
    if (!condition && error_.empty()) error_ = message;
  }
  Request DrawRequest();
  void SubmitOne();
  void CancelOne();
  void MaybeReset();
  void Step();
  void PlanAndCheck();
  void CheckBudgets();
  void CheckComputedOnce();
  void CheckOrder(const std::vector<Sequence*>& running_before);
  void CheckCache();
  void TakeEvents();
  void CheckSource(const ExpectedRequest& request, int32_t num_cached);
  void CheckGone(const ExpectedRequest& request);
  void CheckEnd();

  Dice dice_;
  SimulationCounts& counts_;
  Rates rates_;
  KvCacheOptions cache_options_;
  SchedulerOptions limits_;
  std::unique_ptr<KvCacheManager> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<FakeRunner> runner_;
  BatchBuilder builder_;
  StepPlan plan_;
  StepResult result_;

  std::vector<std::vector<TokenId>> prefixes_;
  int32_t alphabet_ = 2;  // a tiny one repeats a block after different prefixes
  int32_t arrivals_left_ = 0;
  uint64_t next_id_ = 1;
  Time now_{};
  std::map<uint64_t, ExpectedRequest> live_;
  KvCacheStats stats_;
  int64_t hits_told_ = 0, queries_told_ = 0;
  struct Text {  // prompt and answer
    RequestId request{};
    std::vector<TokenId> tokens;
  };
  std::map<RequestId, std::string> tenants_;
  std::vector<Text> texts_;             // of everything that was ever submitted
  std::vector<TokenId> last_finished_;  // tokens of the choice that ended last, if regularly
  CacheNamespace last_namespace_;
  bool poisoned_ = false;
  std::string error_;
};

Simulation::Simulation(uint64_t seed, SimulationCounts& counts) : dice_(seed), counts_(counts) {
  cache_options_ = {.num_blocks = dice_.Pick(3, 40),
                    .block_size = 1 << dice_.Pick(0, 3),
                    .seed = dice_.Chance(50) ? "" : "seed",
                    .prefix_cache = !dice_.Chance(10),
                    .copy_on_write = !dice_.Chance(30)};
  limits_ = {.step_tokens_max = dice_.Pick(1, 64), .running_max = dice_.Pick(1, 12)};
  cache_ = std::make_unique<KvCacheManager>(cache_options_);
  scheduler_ = std::make_unique<Scheduler>(limits_, *cache_);
  runner_ = std::make_unique<FakeRunner>(FakeRunnerOptions{.num_blocks = cache_options_.num_blocks,
                                                           .block_size = cache_options_.block_size,
                                                           .vocab = kVocab});
  const auto some = [&](int32_t percent_max) {
    return dice_.Chance(50) ? dice_.Pick(1, percent_max) : 0;
  };
  rates_ = {.arrival = dice_.Pick(5, 90),
            .cancel = some(10),
            .cancel_in_flight = some(10),
            .abort = some(20),
            .poison = dice_.Chance(25) ? dice_.Pick(1, 5) : 0,
            .reset = some(10),
            .deadline = some(40),
            .choices = some(60),
            .priority = some(60),
            .logprobs = some(50),
            .prompt_logprobs = some(50),
            .penalties = some(60),
            .no_read = some(30),
            .stop = some(60),
            .minimum = some(60)};
  alphabet_ = dice_.Chance(50) ? 2 : kVocab;
  arrivals_left_ = dice_.Pick(5, 60);
  const auto capacity = static_cast<int32_t>(cache_->capacity_tokens());
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<TokenId> prefix(static_cast<size_t>(dice_.Pick(1, capacity / 2 + 1)));
    for (TokenId& token : prefix) token = dice_.Pick(0, alphabet_ - 1);
    prefixes_.push_back(std::move(prefix));
  }
}

Request Simulation::DrawRequest() {
  Request request;
  request.id = RequestId{next_id_++};
  request.prompt = prefixes_[static_cast<size_t>(dice_.Pick(0, 2))];
  request.prompt.resize(
      static_cast<size_t>(dice_.Pick(1, static_cast<int32_t>(request.prompt.size()))));
  for (int32_t k = dice_.Pick(0, 6); k > 0; --k) {
    request.prompt.push_back(dice_.Pick(0, alphabet_ - 1));
  }
  request.answer_tokens_max = dice_.Pick(1, 30);
  if (dice_.Chance(rates_.stop)) {
    for (int32_t k = dice_.Pick(1, 8); k > 0; --k) {
      request.stop_tokens.push_back(dice_.Pick(0, kVocab - 1));
    }
  }
  if (dice_.Chance(rates_.minimum)) {
    request.answer_tokens_min = dice_.Pick(1, request.answer_tokens_max);
  }
  if (dice_.Chance(rates_.choices)) request.num_choices = dice_.Pick(2, 5);
  if (dice_.Chance(rates_.priority)) request.priority = dice_.Pick(-1, 1);
  if (dice_.Chance(rates_.logprobs)) request.sampling.num_logprobs = dice_.Pick(0, 2);
  if (dice_.Chance(rates_.prompt_logprobs)) request.prompt_logprobs = dice_.Pick(0, 2);
  if (dice_.Chance(rates_.penalties)) request.sampling.repetition_penalty = 1.5f;
  if (dice_.Chance(rates_.no_read)) request.read_cache = false;
  request.sampling.seed = static_cast<uint64_t>(dice_.Pick(0, 2));
  request.arrival = now_;
  if (dice_.Chance(rates_.deadline)) {
    request.deadline = now_ + std::chrono::milliseconds(dice_.Pick(1, 60));
  }
  const std::string tenant = dice_.Chance(50) ? "a" : "b";
  tenants_[request.id] = tenant;
  request.cache_namespace = MakeCacheNamespace(tenant, "");
  return request;
}

void Simulation::SubmitOne() {
  --arrivals_left_;
  const Request request = DrawRequest();
  const auto length = static_cast<int64_t>(request.prompt.size()) + request.answer_tokens_max;
  if (!cache_->Fits(length)) {
    ++counts_.refused;
    return;
  }
  ++counts_.requests;
  const auto id = static_cast<uint64_t>(request.id);
  auto group = MakeSequenceGroup(request, *cache_);
  const auto [it, inserted] = live_.emplace(id, ExpectedRequest(request, runner_->model()));
  it->second.group = group.get();
  for (int32_t choice = 0; choice < request.num_choices; ++choice) {
    texts_.push_back({.request = request.id, .tokens = it->second.TokensOf(choice)});
  }
  scheduler_->Add(std::move(group));
}

void Simulation::CancelOne() {
  if (live_.empty()) return;
  auto it = live_.begin();
  std::advance(it, dice_.Pick(0, static_cast<int32_t>(live_.size()) - 1));
  ExpectedRequest& request = it->second;
  const RequestId id = request.request().id;
  ++counts_.cancels;
  if (dice_.Chance(50)) {
    for (int32_t choice = 0; choice < request.request().num_choices; ++choice) {
      if (!request.choices()[static_cast<size_t>(choice)].ended) request.Cancel(choice);
    }
    Expect(scheduler_->Cancel(id), "a cancel was lost");
    return;
  }
  const int32_t choice = dice_.Pick(0, request.request().num_choices - 1);
  const bool ended = request.choices()[static_cast<size_t>(choice)].ended;
  if (!ended) request.Cancel(choice);
  Expect(scheduler_->CancelChoice(id, choice) == !ended, "a cancelled choice was lost");
}

void Simulation::MaybeReset() {
  if (!dice_.Chance(rates_.reset)) return;
  const bool in_use = cache_->num_used() > 0;
  Expect(cache_->ResetPrefixCache() == !in_use, "reset at the wrong time");
  if (in_use) return;
  Expect(cache_->num_cached() == 0, "a block outlived the reset");
  last_finished_.clear();
  ++counts_.resets;
}

std::string Simulation::Run() {
  int32_t num_idle = 0;
  while ((arrivals_left_ > 0 || !scheduler_->idle()) && error_.empty()) {
    while (arrivals_left_ > 0 && dice_.Chance(rates_.arrival)) SubmitOne();
    if (dice_.Chance(rates_.cancel)) CancelOne();
    MaybeReset();
    TakeEvents();
    if (scheduler_->idle()) {
      Expect(++num_idle < 100'000, "arrivals never end");
      continue;
    }
    Step();
  }
  if (error_.empty()) CheckEnd();
  return error_;
}

void Simulation::Step() {
  now_ += std::chrono::milliseconds(dice_.Pick(0, 3));
  PlanAndCheck();
  if (plan_.items.empty() || !error_.empty()) return;
  last_finished_.clear();
  const StepBatch batch = builder_.Build(plan_);
  Expect(runner_->Launch(batch).ok(), "launch failed");
  if (dice_.Chance(rates_.cancel_in_flight)) CancelOne();
  if (dice_.Chance(rates_.poison)) {
    poisoned_ = true;
    runner_->PoisonNextStep(dice_.Pick(0, 1000));
  }
  const bool aborted = dice_.Chance(rates_.abort);
  if (aborted) runner_->FailNextStep(absl::AbortedError("nothing was done"));
  const absl::Status status = runner_->Wait(result_);
  Expect(status.ok() != aborted, "the runner disagrees");
  if (aborted) {
    ++counts_.aborts;
    scheduler_->Abort(plan_);
  } else {
    ++counts_.steps;
    counts_.tokens += plan_.num_tokens;
    scheduler_->Commit(
        plan_,
        {.tokens = result_.tokens, .status = result_.status, .score_status = result_.score_status});
  }
  TakeEvents();
  for (const auto& [id, request] : live_) {
    Expect(!request.has_pending_cancel(), "a cancelled request goes on");
  }
  CheckCache();
}

void Simulation::PlanAndCheck() {
  std::vector<Sequence*> running_before;
  for (Sequence* sequence : scheduler_->running()) {
    if (sequence->group->deadline > now_) running_before.push_back(sequence);
  }
  scheduler_->Plan(now_, plan_);
  counts_.preemptions += plan_.num_preemptions;
  TakeEvents();
  for (const auto& [id, request] : live_) {
    Expect(request.request().deadline > now_, "a request outlived its deadline");
  }
  if (plan_.items.empty()) {
    Expect(scheduler_->idle(), "nothing was planned");
    return;
  }
  CheckBudgets();
  CheckComputedOnce();
  CheckOrder(running_before);
  CheckCache();
}

void Simulation::CheckBudgets() {
  int32_t num_tokens = 0, num_missing_blocks = 0;
  bool admits = false, continues_prompt = false;
  for (const StepPlan::Item& item : plan_.items) {
    const Sequence& sequence = *item.sequence;
    num_tokens += item.num_tokens;
    admits |= sequence.admission_pending;
    continues_prompt |= !sequence.admission_pending && item.num_tokens > 1;
    Expect(item.num_tokens > 0, "an item without tokens");
    Expect(item.first_token == sequence.num_computed, "an item at the wrong place");
  }
  for (const Sequence* sequence : scheduler_->running()) {
    num_missing_blocks += cache_->BlocksNeeded(sequence->table, {}, sequence->num_tokens());
    const bool decodes = sequence->num_missing() == 1;
    Expect(!continues_prompt || !decodes || sequence->in_flight, "a prompt starves an answer");
  }
  Expect(num_tokens == plan_.num_tokens, "tokens do not add up");
  Expect(num_tokens <= limits_.step_tokens_max, "over the token budget");
  Expect(scheduler_->num_running() <= limits_.running_max, "too many running");
  Expect(!admits || plan_.num_preemptions == 0, "a step that preempted admitted");
  Expect(!admits || num_missing_blocks <= cache_->num_free(), "admitted without room to the end");
}

// Nobody is admitted to compute a block that somebody else has computed or is about to compute.
void Simulation::CheckComputedOnce() {
  const int32_t block_size = cache_->block_size();
  for (const StepPlan::Item& item : plan_.items) {
    const Sequence& sequence = *item.sequence;
    const SequenceGroup& group = *sequence.group;
    const int32_t block = item.first_token / block_size;
    const bool reads = group.read_cache && group.prompt_logprobs < 0;
    const bool whole = (block + 1) * block_size < sequence.num_tokens();
    if (!sequence.admission_pending || !reads || !whole || !cache_options_.prefix_cache) continue;
    for (const Sequence* other : scheduler_->running()) {
      const auto& hashes = other->table.hashes;
      if (other == &sequence || static_cast<size_t>(block) >= hashes.size()) continue;
      if (other->table.num_published < block) continue;
      // Bad values may have made its blocks unfit to be found.
      const int32_t last = other->table.num_published > block ? block : block - 1;
      const bool publishes = last < 0 || cache_->pool().is_published(other->table.blocks[last]);
      const bool planned_first = std::ranges::none_of(
          plan_.items.begin() + (&item - plan_.items.data()), plan_.items.end(),
          [&](const StepPlan::Item& later) { return later.sequence == other; });
      if (!publishes || !planned_first) continue;
      Expect(hashes[block] != sequence.table.hashes[block], "a prefix is computed twice");
    }
  }
}

// First come, first served, whatever else happens.
void Simulation::CheckOrder(const std::vector<Sequence*>& running_before) {
  if (!running_before.empty()) {
    Expect(plan_.items.front().sequence == running_before.front(), "the first did not advance");
  }
  for (const Sequence* before : running_before) {
    if (before->state != SequenceState::kWaiting) continue;
    for (const Sequence* running : scheduler_->running()) {
      Expect(ComesFirst(*running, *before), "preempted somebody who was not last");
    }
  }
  for (const auto& [id, request] : live_) {
    for (const Sequence& waiting : request.group->sequences) {
      if (waiting.state != SequenceState::kWaiting) continue;
      Expect(waiting.table.blocks.empty(), "a waiting sequence holds blocks");
      for (const StepPlan::Item& item : plan_.items) {
        if (!item.sequence->admission_pending) continue;
        Expect(ComesFirst(*item.sequence, waiting), "admitted out of order");
      }
    }
  }
}

void Simulation::CheckCache() {
  std::vector<const BlockTable*> tables;
  for (const Sequence* sequence : scheduler_->running()) tables.push_back(&sequence->table);
  cache_->CheckInvariants(tables);
}

void Simulation::TakeEvents() {
  const SchedulerEvents& events = scheduler_->events();
  const auto tell = [&](RequestId id, const std::string& error) {
    if (error.empty()) return;
    Expect(false, fmt::format("request {}: {}", static_cast<uint64_t>(id), error));
  };
  const auto find = [&](RequestId id) -> ExpectedRequest* {
    const auto it = live_.find(static_cast<uint64_t>(id));
    Expect(it != live_.end(), "an event of an unknown request");
    return it == live_.end() ? nullptr : &it->second;
  };
  for (const AdmissionEvent& event : events.admissions) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    tell(event.request, request->Receive(event));
    CheckSource(*request, event.num_cached_tokens);
    const Request& asked = request->request();
    hits_told_ += event.num_cached_tokens;
    queries_told_ += asked.read_cache && asked.prompt_logprobs < 0;
  }
  for (const PromptLogprobsEvent& event : events.prompt_logprobs) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    tell(event.request, request->Receive(event, result_.prompt_logprobs));
  }
  for (const TokenEvent& event : events.tokens) {
    ExpectedRequest* request = find(event.request);
    if (request == nullptr) return;
    tell(event.request, request->Receive(event, result_.logprobs, now_));
    counts_.expired += event.finish == FinishReason::kDeadline;
    counts_.failed += event.finish == FinishReason::kError;
    counts_.forks += event.choice > 0 && event.finish == FinishReason::kLength;
    if (event.finish == FinishReason::kError) {
      Expect(poisoned_, "an error out of nothing");
      CheckGone(*request);
    }
    if (event.finish == FinishReason::kStop || event.finish == FinishReason::kLength) {
      last_finished_ = request->TokensOf(event.choice);
      last_namespace_ = request->request().cache_namespace;
    }
  }
  for (const RequestId id : events.ended) {
    const auto it = live_.find(static_cast<uint64_t>(id));
    if (it == live_.end() || !it->second.ended()) {
      Expect(false, "ended without all of its choices");
      return;
    }
    live_.erase(it);
  }
  scheduler_->ClearEvents();
  stats_ += cache_->TakeStats();
}

// What was found has been computed by somebody of the same namespace.
void Simulation::CheckSource(const ExpectedRequest& request, int32_t num_cached) {
  if (num_cached == 0) return;
  const std::vector<TokenId>& prompt = request.request().prompt;
  const auto is_source = [&](const Text& text) {
    return text.request != request.request().id &&
           tenants_[text.request] == tenants_[request.request().id] &&
           std::ranges::mismatch(text.tokens, prompt).in2 - prompt.begin() >= num_cached;
  };
  Expect(std::ranges::any_of(texts_, is_source), "a hit on what its tenant never computed");
}

// Nothing of a failed request's prompt can be found, once it was computed.
void Simulation::CheckGone(const ExpectedRequest& request) {
  if (!request.has_received()) return;
  Request probe = request.request();
  probe.num_choices = 1;
  const auto group = MakeSequenceGroup(probe, *cache_);
  const Sequence& sequence = group->sequences.front();
  std::vector<TokenId> tokens = sequence.tokens;
  tokens.push_back(0);
  Expect(cache_->GetComputedBlocks(tokens, sequence.table, PartialMatch::kNo).num_tokens == 0,
         "a block that is not finite can be found");
}

void Simulation::CheckEnd() {
  Expect(live_.empty(), "a request never ended");
  Expect(cache_->num_used() == 0, "blocks leaked");
  Expect(scheduler_->num_waiting_prompt_tokens() == 0, "waiting tokens do not add up");
  CheckCache();
  stats_ += cache_->TakeStats();
  if (!cache_options_.prefix_cache) queries_told_ = 0;
  Expect(stats_.queries == queries_told_, "queries do not add up");
  Expect(stats_.hit_tokens == hits_told_, "hits do not add up");
  Expect(stats_.stored_blocks >= stats_.evictions.total(), "evicted more than was stored");
  counts_.hit_tokens += stats_.hit_tokens;
  counts_.evictions += stats_.evictions.total();
  counts_.copied_tokens += stats_.copied_tokens;
  if (last_finished_.empty() || poisoned_) return;

  // What ended last was released last: it is there, to the last block that was computed.
  const auto num_tokens = static_cast<int32_t>(last_finished_.size());
  Request echo;
  echo.prompt.assign(last_finished_.begin(), last_finished_.end() - 1);
  echo.answer_tokens_max = 1;
  echo.cache_namespace = last_namespace_;
  const auto group = MakeSequenceGroup(echo, *cache_);
  const int32_t num_found =
      cache_->GetComputedBlocks(last_finished_, group->sequences.front().table, PartialMatch::kNo)
          .num_tokens;
  const int32_t block_size = cache_->block_size();
  const int32_t num_expected =
      cache_options_.prefix_cache ? (num_tokens - 1) / block_size * block_size : 0;
  Expect(num_found == num_expected, "what was just computed is not found");
}

uint64_t current_seed = 0;

void PrintSeed(int) { std::fprintf(stderr, "while simulating seed %lu\n", current_seed); }

}  // namespace

SimulationCounts& SimulationCounts::operator+=(const SimulationCounts& other) {
  steps += other.steps;
  tokens += other.tokens;
  requests += other.requests;
  refused += other.refused;
  preemptions += other.preemptions;
  cancels += other.cancels;
  expired += other.expired;
  failed += other.failed;
  aborts += other.aborts;
  forks += other.forks;
  hit_tokens += other.hit_tokens;
  evictions += other.evictions;
  copied_tokens += other.copied_tokens;
  resets += other.resets;
  return *this;
}

std::string SimulationCounts::ToString() const {
  return fmt::format(
      "{} steps, {} tokens, {} requests, {} refused, {} preemptions, {} cancels, {} past their "
      "deadline, {} choices not finite, {} aborted steps, {} further choices to their end, {} hit "
      "tokens, {} of them copied, {} evictions, {} resets",
      steps, tokens, requests, refused, preemptions, cancels, expired, failed, aborts, forks,
      hit_tokens, copied_tokens, evictions, resets);
}

std::string Simulate(uint64_t seed, SimulationCounts& counts) {
  current_seed = seed;
  std::signal(SIGABRT, PrintSeed);
  std::signal(SIGSEGV, [](int number) {
    PrintSeed(number);
    std::_Exit(1);
  });
  return Simulation(seed, counts).Run();
}

}  // namespace incipit
