// The baseline that serves requests in the order of their cached prefixes.
#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "tests/serving_sim/baseline.h"

namespace incipit::serving_sim {
namespace {

// Maximum number of waiting requests that are sorted by their cached prefix.
constexpr size_t kSortedMax = 128;
// Two requests count as requests with the same prefix if this number of their first tokens is
// equal.
constexpr int32_t kSharedTokens = 32;
// Number of decode steps in which new_token_ratio falls from its first to its last value.
// new_token_ratio is the part of the remaining output tokens for which the cache keeps room.
constexpr int32_t kRatioSteps = 600;
// After a preemption, new_token_ratio includes this number of further output tokens for each
// sequence.
constexpr int32_t kRetractTokens = 20;
// Maximum number of output tokens that are reserved for one request.
constexpr int32_t kOutputMax = 4096;

}  // namespace

void LongestPrefixScheduler::Plan(Time now, SimStep& step, SimEvents& events) {
  cache_.Advance(now);
  step.Clear();
  for (BaselineSequence* sequence : joining_) {
    if (sequence != nullptr) running_.push_back(sequence);
  }
  joining_.clear();
  if (running_.empty()) is_full_ = false;
  PlanPrompts(step, events);
  if (!step.items.empty()) return;
  if (running_.empty()) {
    ratio_ = kRatioFirst;
    return;
  }
  RetractForDecode(step);
  DecodeRunning(step, events);
}

void LongestPrefixScheduler::OnEnd(const BaselineSequence& sequence) {
  is_full_ = false;
  std::ranges::replace_if(
      joining_, [&](const BaselineSequence* joining) { return joining == &sequence; }, nullptr);
}

// Returns the number of tokens that are kept free for the outputs of running sequences.
double LongestPrefixScheduler::ReservedTokens() const {
  double tokens = 0;
  for (const BaselineSequence* sequence : running_) {
    tokens += std::min(sequence->output_tokens - sequence->num_output(), kOutputMax) * ratio_;
  }
  return tokens;
}

void LongestPrefixScheduler::SortWaiting() {
  if (waiting_.size() > kSortedMax) return;
  absl::flat_hash_set<uint64_t>
      prefixes;  // hashes of kSharedTokens tokens at the begin of requests
  const auto num_blocks = static_cast<size_t>(kSharedTokens / device_.block_size);
  for (BaselineSequence* sequence : waiting_) {
    sequence->num_matched = LookUp(*sequence, PartialMatch::kAllowed).num_tokens;
    if (sequence->num_matched > kSharedTokens || sequence->table.hashes.size() < num_blocks)
      continue;
    const uint64_t prefix = sequence->table.hashes[num_blocks - 1].prefix();
    if (!prefixes.insert(prefix).second) sequence->num_matched = -1;
  }
  std::ranges::stable_sort(waiting_, std::ranges::greater{}, &BaselineSequence::num_matched);
}

void LongestPrefixScheduler::PlanPrompts(SimStep& step, SimEvents& events) {
  if (chunked_ == nullptr && (is_full_ || waiting_.empty())) return;
  const auto num_running = static_cast<int32_t>(running_.size());
  if (chunked_ == nullptr && num_running >= device_.running_max) {
    is_full_ = true;
    return;
  }
  SortWaiting();
  int32_t budget = device_.step_tokens_max;
  reserved_ = ReservedTokens();
  if (chunked_ != nullptr && !ContinueChunk(budget, step, events)) return;
  while (!waiting_.empty() && budget > 0 && chunked_ == nullptr) {
    if (num_running + static_cast<int32_t>(step.items.size()) >= device_.running_max) {
      is_full_ = true;
      break;
    }
    const Added added = AddOne(*waiting_.front(), budget, step, events);
    if (added == Added::kNoTokens) is_full_ = true;
    if (added != Added::kContinue) break;
  }
}

// Adds the next chunk of the prompt `chunked_` to `step`. Returns false if no block is free for the
// chunk.
bool LongestPrefixScheduler::ContinueChunk(int32_t& budget, SimStep& step, SimEvents& events) {
  BaselineSequence& sequence = *chunked_;
  const int32_t num_missing = sequence.num_missing();
  const int32_t num_free = cache_.num_free() * device_.block_size;
  const int32_t num_tokens = std::min({num_missing, budget, num_free});
  if (num_tokens <= 0 ||
      !cache_.AllocateSlots(sequence.table, {}, sequence.num_computed + num_tokens)) {
    return false;
  }
  AddItem(sequence, num_tokens, step, events);
  budget -= num_tokens;
  if (num_tokens < num_missing) return true;
  reserved_ += std::min(sequence.output_tokens, kOutputMax);
  joining_.push_back(chunked_);
  chunked_ = nullptr;
  return true;
}

LongestPrefixScheduler::Added LongestPrefixScheduler::AddOne(BaselineSequence& sequence,
                                                             int32_t& budget, SimStep& step,
                                                             SimEvents& events) {
  const ComputedBlocks computed = LookUp(sequence, PartialMatch::kAllowed);
  const int32_t num_missing = sequence.num_tokens() - computed.num_tokens;
  const int32_t num_output = std::min(sequence.output_tokens - sequence.num_output(), kOutputMax);
  const int32_t num_blocks = cache_.BlocksNeeded(sequence.table, computed, sequence.num_tokens());
  const double needed = double(num_blocks) * device_.block_size + num_output + device_.block_size;
  const double free_tokens = double(cache_.num_free()) * device_.block_size - reserved_;
  if (needed >= free_tokens) return Added::kNoTokens;
  int32_t num_tokens = num_missing;
  if (num_missing > budget) {
    num_tokens = budget / device_.block_size * device_.block_size;
    if (num_tokens == 0) return Added::kOther;
  }
  if (!Begin(sequence, computed, num_tokens)) return Added::kNoTokens;
  waiting_.pop_front();
  AddItem(sequence, num_tokens, step, events);
  budget -= num_tokens;
  if (num_tokens < num_missing) {
    chunked_ = &sequence;
  } else {
    reserved_ += num_output;
    joining_.push_back(&sequence);
  }
  return Added::kContinue;
}

// Preempts sequences until the free blocks suffice for the next token of each remaining sequence.
void LongestPrefixScheduler::RetractForDecode(SimStep& step) {
  const auto num_needed = [this] {
    int32_t blocks = 0;
    for (const BaselineSequence* sequence : running_) {
      blocks += cache_.BlocksNeeded(sequence->table, {}, sequence->num_tokens());
    }
    return blocks;
  };
  if (num_needed() <= cache_.num_free()) {
    ratio_ = std::max(ratio_ - (kRatioFirst - kRatioLast) / kRatioSteps, kRatioLast);
    return;
  }
  while (running_.size() > 1 && num_needed() > cache_.num_free()) {
    const auto victim = std::ranges::min_element(running_, [](const auto* a, const auto* b) {
      if (a->num_output() != b->num_output()) return a->num_output() < b->num_output();
      return a->num_prompt > b->num_prompt;
    });
    BaselineSequence* sequence = *victim;
    running_.erase(victim);
    TakeBlocks(*sequence);
    waiting_.push_back(sequence);
    ++step.num_preemptions;
  }
  double decoded = 0, wanted = 0;
  for (const BaselineSequence* sequence : running_) {
    decoded += sequence->num_output() + kRetractTokens;
    wanted += sequence->output_tokens;
  }
  ratio_ = std::min(1.0, decoded / wanted);
  is_full_ = false;
}

}  // namespace incipit::serving_sim
