#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "engine/store_chunks.h"
#include "tests/sim/simulation_run.h"

namespace incipit {
namespace {

// Maximum number of buffered cache events; the simulation reads the events far more often.
constexpr size_t kEventsMax = 10'000;

}  // namespace

Simulation::Simulation(uint64_t seed, SimulationCounts& counts) : dice_(seed), counts_(counts) {
  RandomizeCache();
  limits_ = {.step_tokens_max = dice_.Pick(1, 64),
             .running_max = dice_.Pick(1, 12),
             .steps_in_flight_max = dice_.Pick(1, 2),
             .scheduling = dice_.Chance(50) ? SchedulingKind::kFcfs : SchedulingKind::kFair,
             .itl_target = std::chrono::milliseconds(dice_.Chance(50) ? 0 : dice_.Pick(1, 30)),
             .ttft_target = std::chrono::milliseconds(dice_.Chance(50) ? 0 : dice_.Pick(1, 300)),
             .priority_aging = std::chrono::milliseconds(dice_.Chance(50) ? 0 : dice_.Pick(1, 50)),
             .reorder_window = dice_.Chance(50) ? 1 : dice_.Pick(2, 64),
             .long_prefill_tokens = dice_.Chance(50) ? 512 : dice_.Pick(1, 40),
             .preemptions_max = dice_.Pick(0, 3),
             .passing = dice_.Chance(50)};
  cache_ = std::make_unique<KvCacheManager>(cache_options_, seams_);
  if (listens_) {
    cache_->Listen({.events_max = kEventsMax,
                    .tokens_max = kEventsMax * static_cast<size_t>(cache_->block_size()),
                    .scope = KvEventScope::kAll});
  }
  RandomizeTier();
  scheduler_ = std::make_unique<Scheduler>(limits_, *cache_, tier_.get());
  runner_ = std::make_unique<FakeRunner>(FakeRunnerOptions{.num_blocks = cache_options_.num_blocks,
                                                           .block_size = cache_options_.block_size,
                                                           .vocab = kVocab,
                                                           .asynchronous = dice_.Chance(4)});
  times_steps_ = dice_.Chance(50);
  RandomizeRates();
  // Evict often, so that the cache lacks what the tier has.
  if (tier_ != nullptr && dice_.Chance(75)) rates_.evict = dice_.Pick(10, 60);
  // In half of these simulations, all requests may load chunks of the same few prefixes.
  if (tier_ != nullptr && dice_.Chance(50)) {
    rates_.salt = rates_.prompt_logprobs = rates_.no_read = rates_.reset = rates_.life = 0;
  }
  alphabet_ = dice_.Chance(50) ? 2 : kVocab;
  arrivals_left_ = dice_.Pick(5, 60);
  const auto capacity = static_cast<int32_t>(cache_->capacity_tokens());
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<TokenId> prefix(static_cast<size_t>(dice_.Pick(1, capacity / 2 + 1)));
    for (TokenId& token : prefix) token = dice_.Pick(0, alphabet_ - 1);
    prefixes_.push_back(std::move(prefix));
  }
}

void Simulation::RandomizeCache() {
  constexpr HashAlgorithm kAlgorithms[] = {HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                                           HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor};
  constexpr double kShares[] = {0, 0.1, 0.25, 0.5, 1};
  cache_options_ = {.num_blocks = dice_.Pick(3, 40),
                    .block_size = 1 << dice_.Pick(0, 3),
                    .hash = kAlgorithms[dice_.Pick(0, 3)],
                    .seed = dice_.Chance(50) ? "" : "seed",
                    .prefix_cache = !dice_.Chance(10),
                    .copy_on_write = !dice_.Chance(30),
                    .policy = static_cast<EvictionPolicyKind>(dice_.Pick(0, 5)),
                    .retention = {.tenant_share_max = kShares[dice_.Pick(0, 4)],
                                  .duration_max = std::chrono::milliseconds(dice_.Pick(5, 200))}};
  collides_ = NeedsVerification(cache_options_.hash) && dice_.Chance(20);
  if (collides_) seams_.digest_bits = dice_.Pick(1, 8);
  listens_ = dice_.Chance(25);
  const int32_t block_size = cache_options_.block_size;
  seams_.copy_min_tokens = dice_.Chance(75) ? 1 : dice_.Pick(0, block_size);
}

// Creates a tier in some simulations. A tier needs SHA-256 keys.
void Simulation::RandomizeTier() {
  if (NeedsVerification(cache_options_.hash) || !dice_.Chance(80)) return;
  const int32_t block_size = cache_options_.block_size;
  const auto some = [&] { return dice_.Chance(30) ? dice_.Pick(1, 40) : 0; };
  tier_ = std::make_unique<FakeTier>(FakeTierOptions{
      .shape = {.block_size = block_size,
                .blocks_per_chunk = 1 << (dice_.Chance(50) ? 0 : dice_.Pick(1, 2)),
                .block_bytes = sizeof(uint64_t) * static_cast<size_t>(block_size)},
      .seed = static_cast<uint64_t>(dice_.Pick(0, 1'000'000)),
      .staging_slots = dice_.Chance(60) ? dice_.Pick(1, 4) : dice_.Pick(5, 30),
      .chunks_max = dice_.Chance(50) ? 1000 : dice_.Pick(1, 20),
      .polls_max = dice_.Pick(0, 4),
      .load_time = std::chrono::microseconds(dice_.Chance(70) ? 0 : dice_.Pick(1, 20'000)),
      .fail = some(),
      .hang = some(),
      .refuse = some(),
      .lose = some()});
  limits_.loads_max = dice_.Pick(1, 6);
  limits_.load_policy = dice_.Chance(50) ? LoadPolicy::kFaster : LoadPolicy::kAlways;
  limits_.load_wait_max = std::chrono::milliseconds(dice_.Chance(50) ? 0 : dice_.Pick(1, 40));
  limits_.chunk_events_max = dice_.Pick(1, 10);
}

void Simulation::RandomizeRates() {
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
            .minimum = some(60),
            .salt = some(60),
            .evict = some(5),
            .low = some(60),
            .high = some(60),
            .life = some(60)};
}

Request Simulation::RandomRequest() {
  Request request;
  request.id = RequestId{next_id_++};
  request.prompt = prefixes_[static_cast<size_t>(dice_.Pick(0, 2))];
  request.prompt.resize(
      static_cast<size_t>(dice_.Pick(1, static_cast<int32_t>(request.prompt.size()))));
  for (int32_t k = dice_.Pick(0, 6); k > 0; --k) {
    request.prompt.push_back(dice_.Pick(0, alphabet_ - 1));
  }
  request.output_tokens_max = dice_.Pick(1, 30);
  if (dice_.Chance(rates_.stop)) {
    for (int32_t k = dice_.Pick(1, 8); k > 0; --k) {
      request.stop_tokens.push_back(dice_.Pick(0, kVocab - 1));
    }
  }
  if (dice_.Chance(rates_.minimum)) {
    request.output_tokens_min = dice_.Pick(1, request.output_tokens_max);
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
  const std::string salt = dice_.Chance(rates_.salt) ? "salt" : "";
  namespaces_[request.id] = tenant + salt;
  request.cache_namespace = MakeCacheNamespace(tenant, salt);
  request.tenant = tenant == "a" ? 1 : 2;
  request.retention = RandomHint();
  return request;
}

Retention Simulation::RandomHint() {
  Retention hint;
  if (dice_.Chance(rates_.low)) hint.priority = dice_.Pick(0, 49);
  if (dice_.Chance(rates_.high)) hint.priority = dice_.Pick(51, 100);
  if (dice_.Chance(rates_.high)) hint.pin = std::chrono::milliseconds(dice_.Pick(1, 150));
  if (dice_.Chance(rates_.life)) hint.time_to_live = std::chrono::milliseconds(dice_.Pick(1, 100));
  return hint;
}

void Simulation::SubmitOne() {
  --arrivals_left_;
  const Request request = RandomRequest();
  const auto length = static_cast<int64_t>(request.prompt.size()) + request.output_tokens_max;
  if (!cache_->Fits(length)) {
    ++counts_.refused;
    return;
  }
  ++counts_.requests;
  const auto id = static_cast<uint64_t>(request.id);
  auto group = MakeSequenceGroup(std::make_shared<const Request>(request), *cache_);
  const auto [it, inserted] = live_.emplace(id, ExpectedRequest(request, runner_->model()));
  it->second.group = group.get();
  for (int32_t choice = 0; choice < request.num_choices; ++choice) {
    texts_.push_back({.request = request.id, .tokens = it->second.TokensOf(choice)});
  }
  scheduler_->Add(std::move(group));
  ++num_groups_;
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
    TakeEvents();
    return;
  }
  const int32_t choice = dice_.Pick(0, request.request().num_choices - 1);
  const bool ended = request.choices()[static_cast<size_t>(choice)].ended;
  if (!ended) request.Cancel(choice);
  Expect(scheduler_->CancelChoice(id, choice) == !ended, "a cancelled choice was lost");
  TakeEvents();
}

void Simulation::MaybeReset() {
  if (!dice_.Chance(rates_.reset)) return;
  const bool in_use = cache_->num_used() > 0;
  Expect(cache_->ResetPrefixCache() == !in_use,
         "the cache must be emptied if and only if no block is in use");
  if (in_use) return;
  if (tier_ != nullptr) tier_->Clear();
  Expect(cache_->num_cached() == 0, "a block outlived the reset");
  last_finished_.clear();
  ++counts_.resets;
}

void Simulation::MaybeEvict() {
  if (!dice_.Chance(rates_.evict)) return;
  const int32_t num_free = cache_->num_free();
  const int32_t num_cached_max = dice_.Pick(0, cache_options_.num_blocks);
  const int32_t num_expected = std::min(cache_->num_cached(), num_cached_max);
  cache_->EvictTo(num_cached_max);
  Expect(cache_->num_cached() == num_expected, "EvictTo left a wrong number of cached blocks");
  Expect(cache_->num_free() == num_free, "EvictTo changed the number of free blocks");
  last_finished_.clear();
}

std::string Simulation::Run() {
  int32_t num_idle = 0;
  while ((arrivals_left_ > 0 || !scheduler_->idle()) && error_.empty()) {
    while (arrivals_left_ > 0 && dice_.Chance(rates_.arrival)) SubmitOne();
    if (dice_.Chance(rates_.cancel)) CancelOne();
    MaybeReset();
    MaybeEvict();
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

// Advances one step as the engine loop does: with two steps in flight, the next step is planned
// before the oldest step is committed.
void Simulation::Step() {
  if (scheduler_->num_in_flight() == 0) PlanAndLaunch();
  if (scheduler_->num_in_flight() == 0 || !error_.empty()) return;
  if (limits_.steps_in_flight_max == 2) {
    if (dice_.Chance(rates_.cancel_in_flight)) CancelOne();
    PlanAndLaunch();
    if (!error_.empty()) return;
  }
  if (dice_.Chance(rates_.cancel_in_flight)) CancelOne();
  MaybeEvict();
  FinishOldest();
  TakeEvents();
  for (const auto& [id, request] : live_) {
    // A cancelled sequence that computes the prompt for other choices ends when its last step in
    // flight is committed.
    Expect(!request.has_pending_cancel() || scheduler_->num_in_flight() > 0,
           "a cancelled request goes on");
  }
  CheckHeld();
  CheckCache();
}

void Simulation::PlanAndLaunch() {
  now_ += std::chrono::milliseconds(dice_.Pick(0, 3));
  StepInFlight& step =
      steps_[(oldest_ + static_cast<size_t>(scheduler_->num_in_flight())) % steps_.size()];
  plan_ = &step.plan;
  // Blocks of `last_finished_` may now be evicted, because their time to live may end. Clears the
  // tokens, so that no check expects these blocks.
  if (rates_.life > 0) last_finished_.clear();
  PlanAndCheck();
  if (plan_->items.empty() || !error_.empty()) return;
  last_finished_.clear();
  if (dice_.Chance(rates_.poison)) {
    poisoned_ = true;
    runner_->PoisonNextStep(dice_.Pick(0, 1000));
  }
  step.aborts = dice_.Chance(rates_.abort);
  if (step.aborts) runner_->FailNextStep(absl::AbortedError("nothing was done"));
  step.step = step.builder.Build(step.plan, tier_.get());
  Expect(runner_->Launch(step.step).ok(), "launch failed");
}

void Simulation::FinishOldest() {
  StepInFlight& step = steps_[oldest_];
  StepInFlight& newer = steps_[1 - oldest_];
  const absl::Status status = runner_->Wait(result_);
  Expect(status.ok() != step.aborts, "the runner disagrees");
  if (step.aborts) {
    ++counts_.aborts;
    // The newer step used samples of the aborted step, so both steps are rolled back.
    if (scheduler_->num_in_flight() == 2) {
      Expect(runner_->Wait(result_).ok() != newer.aborts, "the runner disagrees");
      scheduler_->Abort(newer.plan);
      CheckHeld();
      CheckCache();
    }
    scheduler_->Abort(step.plan);
    return;
  }
  ++counts_.steps;
  counts_.tokens += step.plan.num_tokens;
  oldest_ = 1 - oldest_;
  scheduler_->Commit(
      step.plan,
      {.tokens = result_.tokens,
       .status = result_.status,
       .score_status = result_.score_status,
       .duration = times_steps_ ? std::chrono::microseconds(dice_.Pick(500, 20'000)) : Duration{}});
  Expect(tier_ != nullptr || scheduler_->events().chunks.empty(),
         "a chunk is reported without a tier");
  if (tier_ != nullptr) {
    const StoredChunks chunks = StoreChunks(scheduler_->events(), *runner_, *tier_);
    Expect(chunks.num_failed == 0, "blocks cannot be read");
    counts_.stored_chunks += chunks.num_stored;
  }
}

namespace {

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
  low_priority += other.low_priority;
  lives_over += other.lives_over;
  regret += other.regret;
  collisions += other.collisions;
  ahead += other.ahead;
  fed += other.fed;
  counted += other.counted;
  sat_out += other.sat_out;
  stored_chunks += other.stored_chunks;
  loads += other.loads;
  loaded_tokens += other.loaded_tokens;
  failed_loads += other.failed_loads;
  load_parts += other.load_parts;
  return *this;
}

std::string SimulationCounts::ToString() const {
  return fmt::format(
      "{} steps, {} tokens, {} requests, {} refused requests, {} preemptions, {} cancellations, "
      "{} choices that missed their deadline, {} choices with NaN or infinite logits, "
      "{} aborted steps, {} completed choices other than the first, {} cached prompt tokens, "
      "{} cached prompt tokens in copied blocks, {} evicted blocks, "
      "{} evicted blocks of low priority, {} evicted blocks with an ended time to live, "
      "{} blocks computed again soon after their eviction, {} cache resets, {} key collisions, "
      "{} steps planned while another step was in flight, {} tokens planned before they were "
      "sampled, {} such tokens of requests with penalties, {} omissions of a sequence from a step, "
      "{} stored chunks, {} started loads of chunks, {} loaded prompt tokens, "
      "{} admissions after a failed load, {} loads in parts",
      steps, tokens, requests, refused, preemptions, cancels, expired, failed, aborts, forks,
      hit_tokens, copied_tokens, evictions, low_priority, lives_over, regret, resets, collisions,
      ahead, fed, counted, sat_out, stored_chunks, loads, loaded_tokens, failed_loads, load_parts);
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
