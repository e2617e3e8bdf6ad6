// Schedulers of other projects, as baselines of the simulation with time. The baselines use the
// same cache (KvCacheManager) and the same limits as Incipit's scheduler. Each class lists the
// rules that it models. Rules for several choices, priorities, adapters, images, speculation and
// several devices are left out. The baselines ignore tenants and deadlines, as the originals do by
// default.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

// A request in a baseline.
struct BaselineSequence {
  int32_t request = 0;  // index in Load::requests
  int32_t num_prompt = 0, output_tokens = 0;
  std::vector<TokenId> tokens;  // the prompt and the output so far
  BlockTable table;
  // Number of tokens that were computed in committed steps or found in the cache.
  int32_t num_computed = 0;
  // Number of tokens that the last lookup has found. Used by LongestPrefixScheduler only.
  int32_t num_matched = 0;
  bool is_admitted = false;  // true: the request was admitted at least once

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_missing() const { return num_tokens() - num_computed; }
  int32_t num_output() const { return num_tokens() - num_prompt; }
};

// The parts that all baselines share: sequences, blocks and Commit.
class Baseline : public SimScheduler {
 public:
  Baseline(const DeviceModel& device, const Load& load);

  void Add(int32_t request) override;
  void Commit(Duration duration, SimEvents& events) override;

 protected:
  // Returns the cached blocks at the begin of `sequence`.
  ComputedBlocks LookUp(const BaselineSequence& sequence, PartialMatch partial);
  // Allocates blocks for the waiting `sequence`: the cached blocks `computed`, and new blocks for
  // the next `num_new` tokens. Returns false, and changes nothing, if too few blocks are free.
  bool Begin(BaselineSequence& sequence, const ComputedBlocks& computed, int32_t num_new);
  // Adds `num_tokens` tokens of `sequence` to `step`. REQUIRES: the blocks are allocated.
  void AddItem(BaselineSequence& sequence, int32_t num_tokens, SimStep& step, SimEvents& events);
  // Releases the blocks of `sequence`. When the sequence runs again, its tokens are computed again
  // or found in the cache.
  void TakeBlocks(BaselineSequence& sequence);
  // Adds the next token of each sequence of running_ to `step`, in order. If no block is free,
  // preempts the last sequence of running_ (PreemptLast).
  void DecodeRunning(SimStep& step, SimEvents& events);
  // Releases the blocks of the last sequence of running_, and moves the sequence to the front of
  // waiting_. Returns the sequence.
  BaselineSequence* PreemptLast();
  // Called when `sequence` has ended.
  virtual void OnEnd(const BaselineSequence& /*sequence*/) {}

  const DeviceModel& device_;
  const Load& load_;
  KvCacheManager cache_;
  std::deque<BaselineSequence*> waiting_;
  std::vector<BaselineSequence*> running_;  // in the order of admission
  // True: lookups find the blocks of a step as soon as the step is planned.
  bool announces_ = false;

 private:
  void CommitItem(BaselineSequence& sequence, const SimItem& item, SimEvents& events);

  std::vector<std::unique_ptr<BaselineSequence>> sequences_;  // by index in Load::requests
  std::vector<SimItem> planned_;                              // items of the step in flight
};

// First come, first served, without chunks: the default rules of vLLM before version 1
// (vllm/core/scheduler.py, Scheduler._schedule_default, 0.4 to 0.8), which follow Orca (OSDI'22).
//  - A step computes prompts only, or decodes only. Prompts go first.
//  - A prompt is computed whole, in one step. A step takes waiting prompts in order while their sum
//    is at most step_tokens_max; a longer prompt has a step of its own.
//  - A prompt is admitted if its blocks are free, and 1 % of all blocks stay free (watermark).
//  - If a decoding sequence finds no free block, the sequence that was admitted last is preempted:
//    it gives up its blocks and becomes the first waiting one.
// Different from the originals: the prefix cache is on, and a longer prompt than step_tokens_max is
// not refused.
class FcfsScheduler : public Baseline {
 public:
  using Baseline::Baseline;
  void Plan(Time now, SimStep& step, SimEvents& events) override;

 private:
  void Admit(SimStep& step, SimEvents& events);
};

// First come, first served, with chunks: the default rules of vLLM's version 1
// (vllm/v1/core/sched/scheduler.py, Scheduler.schedule, as of January 2026), with
// max_num_batched_tokens = step_tokens_max and max_num_seqs = running_max.
//  - Running sequences come first, in the order of admission. Each takes all its missing tokens, at
//    most what is left of the budget.
//  - If no block is free, the last running sequence is preempted and becomes the first waiting one.
//    A step that preempts admits no sequence.
//  - Then waiting sequences are admitted in order while budget and slots are left. Only the blocks
//    of the first chunk must be free, not the blocks of the whole prompt.
//  - The blocks of a step can be found in the cache while the step is planned.
class FcfsChunkedScheduler : public Baseline {
 public:
  FcfsChunkedScheduler(const DeviceModel& device, const Load& load) : Baseline(device, load) {
    announces_ = true;
  }
  void Plan(Time now, SimStep& step, SimEvents& events) override;

 private:
  void ContinueRunning(int32_t& budget, SimStep& step, SimEvents& events);
  void Admit(int32_t budget, SimStep& step, SimEvents& events);
};

// Longest prefix first: the policy `lpm` of SGLang (python/sglang/srt/managers/schedule_policy.py
// and scheduler.py, 0.4 to early 2026), with chunked_prefill_size = step_tokens_max, without
// enable_mixed_chunk, without schedule_conservativeness.
//  - A step computes prompts only, or decodes only. Prompts go first.
//  - Before each step of prompts, the waiting requests are sorted by the length of their cached
//    prefix, longest first. With more than 128 waiting requests, the list keeps its order.
//  - A request goes last if at most 32 of its tokens are cached and an earlier request of the list
//    begins with the same 32 tokens. The earlier request may compute these tokens first.
//  - One prompt at a time may be split into chunks. The next step of prompts continues this prompt
//    first.
//  - A request is admitted if two numbers of tokens fit into the cache together: its missing tokens
//    with its whole output, and a reserve. The reserve is new_token_ratio times the tokens that
//    running requests may still sample. The ratio falls from 0.7 to 0.098 in 600 decode steps.
//  - If decoding sequences find no free blocks, one sequence is moved to the end of the list, and
//    the ratio grows. The sequence is the one with the fewest output tokens; among several, the one
//    with the longest prompt.
class LongestPrefixScheduler : public Baseline {
 public:
  using Baseline::Baseline;
  void Plan(Time now, SimStep& step, SimEvents& events) override;

 private:
  enum class Added : uint8_t { kContinue, kNoTokens, kOther };

  void OnEnd(const BaselineSequence& sequence) override;
  void SortWaiting();
  void PlanPrompts(SimStep& step, SimEvents& events);
  bool ContinueChunk(int32_t& budget, SimStep& step, SimEvents& events);
  Added AddOne(BaselineSequence& sequence, int32_t& budget, SimStep& step, SimEvents& events);
  double ReservedTokens() const;
  void RetractForDecode(SimStep& step);

  static constexpr double kRatioFirst = 0.7, kRatioLast = 0.098;
  double ratio_ = kRatioFirst;           // new_token_ratio
  bool is_full_ = false;                 // batch_is_full
  BaselineSequence* chunked_ = nullptr;  // the prompt that is computed in chunks
  // Sequences whose prompts the last step has computed. nullptr: the sequence has ended.
  std::vector<BaselineSequence*> joining_;
  // Number of tokens that the sequences admitted in this step may still need.
  double reserved_ = 0;
};

}  // namespace incipit::serving_sim
