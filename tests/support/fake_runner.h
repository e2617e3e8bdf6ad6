// A fake model for tests that detects every mistake in sharing cache blocks.
//
// As in a real model, the keys and values of a token depend on all earlier tokens. Each slot stores
// a hash of the previous slot and the slot's own token. A sampled token is a hash of all slots that
// are read through the block table. A block that is wrongly shared, evicted, copied or written
// anywhere in the prefix therefore changes the output.
//
// The bytes of a block are the hashes of its slots. If Step::writes sets a block to bytes of
// another prefix, or to bytes that have changed since ReadBlocks, the output changes too.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/check.h"
#include "base/mutex.h"
#include "engine/model_runner.h"

namespace incipit {

// The fake model as a function of a whole token sequence, computed without a cache. FakeRunner must
// sample the same tokens.
class FakeModel {
 public:
  explicit FakeModel(int32_t vocab) : vocab_(vocab) {}

  static uint64_t Mix(uint64_t h, uint64_t x) {
    h = (h ^ (x + 1)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
  }
  static uint64_t Slot(uint64_t slot_before, TokenId token) {
    return Mix(slot_before, static_cast<uint64_t>(token));
  }
  // Returns the hash of the slots of positions [0, tokens.size()). The hash stands for the logits
  // of the last token.
  static uint64_t Row(std::span<const TokenId> tokens) {
    uint64_t slot = 0, row = 0;
    for (const TokenId token : tokens) {
      slot = Slot(slot, token);
      row = Mix(row, slot);
    }
    return row;
  }

  // Returns the sampled token. The token depends only on `row` and on the seed, choice, position,
  // penalty counts and banned tokens of `sample`.
  TokenId Sample(uint64_t row, const StepSample& sample) const {
    uint64_t bits = Mix(row, sample.params->seed);
    bits = Mix(Mix(bits, static_cast<uint64_t>(sample.choice)),
               static_cast<uint64_t>(sample.position));
    for (const TokenCount& count : sample.counts) {
      bits = Mix(bits, static_cast<uint64_t>(count.token));
      bits = Mix(bits, static_cast<uint64_t>(count.in_prompt));
      bits = Mix(bits, static_cast<uint64_t>(count.in_output));
    }
    const auto first = static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_));
    for (int32_t i = 0; i < vocab_; ++i) {
      const TokenId token = (first + i) % vocab_;
      if (std::ranges::find(sample.banned, token) == sample.banned.end()) return token;
    }
    return first;
  }

  float Logprob(uint64_t row, TokenId token) const {
    return -static_cast<float>(Mix(row, static_cast<uint64_t>(token)) % 1024) / 64;
  }
  // Appends one row of log probabilities: `token` and `num_top` other tokens.
  void AppendLogprobs(uint64_t row, TokenId token, int32_t num_top, Logprobs& logprobs) const {
    logprobs.chosen.push_back({.token = token, .logprob = Logprob(row, token)});
    logprobs.rank.push_back(static_cast<int32_t>(row % 7) + 1);
    for (int32_t i = 0; i < num_top; ++i) {
      const auto other =
          static_cast<TokenId>((row + static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab_));
      logprobs.top.push_back({.token = other, .logprob = Logprob(row, other)});
    }
    logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
  }

 private:
  int32_t vocab_;
};

struct FakeRunnerOptions {
  int32_t num_blocks = 0;
  int32_t block_size = 16;
  int32_t vocab = 50;
  // True: a separate thread computes the steps. False: Wait computes each step.
  bool asynchronous = false;
};

// Computes steps with the fake model. Not thread-safe. The results depend on no option except
// `vocab`.
class FakeRunner : public ModelRunner {
 public:
  explicit FakeRunner(const FakeRunnerOptions& options)
      : options_(options),
        model_(options.vocab),
        slots_(static_cast<size_t>(options.num_blocks) * static_cast<size_t>(options.block_size),
               0xdead) {
    if (options.asynchronous) thread_ = std::thread([this] { ComputeLaunched(); });
  }
  // REQUIRES: Wait has returned for every launched step.
  ~FakeRunner() override {
    if (!thread_.joinable()) return;
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  // Makes the next launched step compute nothing and return `status` from Wait.
  void FailNextStep(absl::Status status) { next_.status = std::move(status); }
  // Makes the next launched step store a value that is not finite for one token: token number `row`
  // modulo the number of tokens. A later token that attends to this token also gets values that are
  // not finite, until the slot of this token is overwritten.
  void PoisonNextStep(int32_t row) { next_.poison_row = row; }

  absl::Status Launch(const Step& step) override {
    INCIPIT_CHECK(num_in_flight_ < steps_.size());
    StepInFlight& launched = steps_[(oldest_ + num_in_flight_++) % steps_.size()];
    launched.step = step;
    launched.CopyCounts();
    launched.faults = std::exchange(next_, {});
    if (!thread_.joinable()) return absl::OkStatus();
    MutexLock lock(mutex_);
    ++num_launched_;
    changed_.notify_all();
    return absl::OkStatus();
  }

  absl::Status Wait(StepResult& result) override {
    INCIPIT_CHECK(num_in_flight_ > 0);
    StepInFlight& step = steps_[oldest_];
    if (!thread_.joinable()) {
      Compute(step);
    } else {
      MutexLock lock(mutex_);
      while (num_computed_ == num_waited_) changed_.wait(mutex_);
      ++num_waited_;
    }
    oldest_ = (oldest_ + 1) % steps_.size();
    --num_in_flight_;
    if (step.faults.status.ok()) std::swap(result, step.result);
    return step.faults.status;
  }

  size_t block_bytes() const override {
    return static_cast<size_t>(options_.block_size) * sizeof(uint64_t);
  }
  absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) override {
    INCIPIT_CHECK(to.size() == blocks.size() * block_bytes());
    for (size_t i = 0; i < blocks.size(); ++i) {
      std::memcpy(to.data() + i * block_bytes(), &Slot(blocks[i], 0), block_bytes());
    }
    return absl::OkStatus();
  }
  // Returns true if the bytes of blocks contain only finite values, that is, no slot that a step
  // with PoisonNextStep has computed. Stands for AllFinite of kernels/finite.h.
  static bool AllFinite(std::span<const std::byte> blocks) {
    for (; !blocks.empty(); blocks = blocks.subspan(sizeof(uint64_t))) {
      uint64_t slot;
      std::memcpy(&slot, blocks.data(), sizeof(slot));
      if (slot == kPoison) return false;
    }
    return true;
  }

  const FakeModel& model() const { return model_; }

 protected:
  // Called before each step is computed, on the thread that computes the step. If the returned
  // status is not OK, the step computes nothing and Wait returns the status.
  virtual absl::Status Begin() { return absl::OkStatus(); }

 private:
  static constexpr uint64_t kPoison = ~uint64_t{0};

  struct Faults {
    absl::Status status;
    int32_t poison_row = -1;
  };
  struct StepInFlight {
    Step step;
    Faults faults;
    StepResult result;
    // Penalty counts of sample i: counts[count_begin[i], count_begin[i + 1]).
    std::vector<TokenCount> counts;
    std::vector<size_t> count_begin;

    // Copies the counts of all samples, because the caller may change the counts after Launch.
    void CopyCounts() {
      counts.clear();
      count_begin.assign(1, 0);
      for (const StepSample& sample : step.samples) {
        counts.insert(counts.end(), sample.counts.begin(), sample.counts.end());
        count_begin.push_back(counts.size());
      }
    }
    std::span<const TokenCount> CountsOf(size_t sample) const {
      return std::span(counts).subspan(count_begin[sample],
                                       count_begin[sample + 1] - count_begin[sample]);
    }
  };

  void ComputeLaunched() {
    for (size_t next = 0;; next = (next + 1) % steps_.size()) {
      {
        MutexLock lock(mutex_);
        while (num_launched_ == num_computed_ && !stopping_) changed_.wait(mutex_);
        if (num_launched_ == num_computed_) return;
      }
      Compute(steps_[next]);
      MutexLock lock(mutex_);
      ++num_computed_;
      changed_.notify_all();
    }
  }

  void Compute(StepInFlight& in_flight) {
    Faults& faults = in_flight.faults;
    if (absl::Status status = Begin(); !status.ok()) faults.status = std::move(status);
    if (!faults.status.ok()) {
      sampled_before_.clear();
      nothing_before_ = true;
      return;
    }
    step_ = in_flight.step;
    poison_row_ = faults.poison_row;
    StepResult& result = in_flight.result;
    result.tokens.clear();
    result.status.clear();
    result.score_status.clear();
    result.logprobs.Clear();
    result.prompt_logprobs.Clear();
    CheckShape();
    FeedTokens();
    DoWrites();
    DoCopies();
    WriteSlots();
    for (int32_t s = 0; s < num_sequences(); ++s) {
      for (int32_t i = step_.sample_begin[s]; i < step_.sample_begin[s + 1]; ++i) {
        StepSample sample = step_.samples[i];
        sample.counts = CountPending(sample, in_flight.CountsOf(static_cast<size_t>(i)));
        DoSample(s, sample, result);
      }
      for (int32_t i = step_.score_begin[s]; i < step_.score_begin[s + 1]; ++i) {
        DoScore(s, step_.scores[i], result);
      }
    }
    sampled_before_.assign(result.tokens.begin(), result.tokens.end());
    nothing_before_ = false;
  }

  // Replaces each fed token by the token that the previous step sampled. If the previous step
  // failed, the engine discards the results of the current step, and the fed token is 0.
  void FeedTokens() {
    tokens_.assign(step_.tokens.begin(), step_.tokens.end());
    for (TokenId& token : tokens_) {
      if (token >= 0) continue;
      const auto sample = static_cast<size_t>(-1 - token);
      INCIPIT_CHECK(nothing_before_ || sample < sampled_before_.size());
      // If the previous step sampled no token, because its values were not finite, the current step
      // computes token 0 instead.
      token = nothing_before_ ? 0 : std::max(sampled_before_[sample], 0);
    }
  }

  // Returns `counts` and one more occurrence in the output for the pending token of `sample`. The
  // result is valid until the next call.
  std::span<const TokenCount> CountPending(const StepSample& sample,
                                           std::span<const TokenCount> counts) {
    counted_.assign(counts.begin(), counts.end());
    if (sample.pending_sample < 0) return counted_;
    const auto index = static_cast<size_t>(sample.pending_sample);
    INCIPIT_CHECK(nothing_before_ || index < sampled_before_.size());
    if (nothing_before_ || !sample.params->has_penalties()) return counted_;
    const TokenId token = sampled_before_[index];
    if (token < 0) return counted_;  // the logits of the pending token are not finite
    auto it = std::ranges::lower_bound(counted_, token, {}, &TokenCount::token);
    if (it == counted_.end() || it->token != token) it = counted_.insert(it, {.token = token});
    ++it->in_output;
    return counted_;
  }

  int32_t num_sequences() const { return static_cast<int32_t>(step_.token_begin.size()) - 1; }
  std::span<const BlockId> TableOf(int32_t sequence) const {
    return step_.blocks.subspan(step_.block_begin[sequence],
                                step_.block_begin[sequence + 1] - step_.block_begin[sequence]);
  }
  uint64_t& Slot(BlockId block, int32_t offset) {
    INCIPIT_CHECK(static_cast<int32_t>(block) >= 0 &&
                  static_cast<int32_t>(block) < options_.num_blocks);
    return slots_[static_cast<size_t>(block) * static_cast<size_t>(options_.block_size) +
                  static_cast<size_t>(offset)];
  }
  uint64_t& Slot(std::span<const BlockId> table, int32_t position) {
    INCIPIT_CHECK(position / options_.block_size < static_cast<int32_t>(table.size()));
    return Slot(table[position / options_.block_size], position % options_.block_size);
  }

  void CheckShape() const {
    INCIPIT_CHECK(step_.positions.size() == step_.tokens.size());
    INCIPIT_CHECK(step_.block_begin.size() == step_.token_begin.size());
    INCIPIT_CHECK(step_.token_begin[num_sequences()] == static_cast<int32_t>(step_.tokens.size()));
    CheckRanges(step_.sample_begin, step_.samples);
    CheckRanges(step_.score_begin, step_.scores);
  }

  // Checks that each sample and each score is in the range of the sequence that owns its row, and
  // that rows ascend.
  template <class Entry>
  void CheckRanges(std::span<const int32_t> begin, std::span<const Entry> entries) const {
    INCIPIT_CHECK(begin.size() == step_.token_begin.size());
    INCIPIT_CHECK(begin.front() == 0 && begin.back() == static_cast<int32_t>(entries.size()));
    INCIPIT_CHECK(std::ranges::is_sorted(entries, {}, &Entry::row));
    for (int32_t s = 0; s < num_sequences(); ++s) {
      for (int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        INCIPIT_CHECK(entries[i].row >= step_.token_begin[s]);
        INCIPIT_CHECK(entries[i].row < step_.token_begin[s + 1]);
      }
    }
  }

  // Sets blocks to given bytes. The bytes are read here and not in Launch, so that a caller that
  // changes the bytes before the step has finished causes wrong output.
  void DoWrites() {
    for (const BlockWrite& write : step_.writes) {
      const auto sets_same = [&](const BlockWrite& other) {
        return &other != &write && other.to == write.to;
      };
      INCIPIT_CHECK(write.data != nullptr && std::ranges::none_of(step_.writes, sets_same));
      const auto changes = [&](const BlockCopy& copy) { return copy.to == write.to; };
      INCIPIT_CHECK(std::ranges::none_of(step_.copies, changes));
      std::memcpy(&Slot(write.to, 0), write.data, block_bytes());
    }
  }

  // Copies blocks. A device may copy in any order, so no copy may read or write the target of
  // another copy.
  void DoCopies() {
    for (const BlockCopy& copy : step_.copies) {
      const auto touches = [&](const BlockCopy& other) {
        return &other != &copy && (other.to == copy.from || other.to == copy.to);
      };
      INCIPIT_CHECK(copy.from != copy.to && std::ranges::none_of(step_.copies, touches));
      for (int32_t i = 0; i < copy.num_tokens; ++i) Slot(copy.to, i) = Slot(copy.from, i);
    }
  }

  void WriteSlots() {
    for (int32_t s = 0; s < num_sequences(); ++s) {
      const auto table = TableOf(s);
      for (int32_t i = step_.token_begin[s]; i < step_.token_begin[s + 1]; ++i) {
        const int32_t position = step_.positions[i];
        const uint64_t before = position == 0 ? 0 : Slot(table, position - 1);
        uint64_t& slot = Slot(table, position);
        slot =
            before == kPoison ? kPoison : FakeModel::Slot(before, tokens_[static_cast<size_t>(i)]);
        const auto num_tokens = static_cast<int32_t>(step_.tokens.size());
        if (poison_row_ >= 0 && poison_row_ % num_tokens == i) slot = kPoison;
      }
    }
  }

  // Computes the hash `row` of the slots that the token row attends to. Returns false if one of
  // these slots is not finite.
  bool ReadRow(int32_t sequence, int32_t token_row, uint64_t& row) {
    row = 0;
    for (int32_t p = 0; p <= step_.positions[token_row]; ++p) {
      const uint64_t slot = Slot(TableOf(sequence), p);
      if (slot == kPoison) return false;
      row = FakeModel::Mix(row, slot);
    }
    return true;
  }

  void DoSample(int32_t sequence, const StepSample& sample, StepResult& result) {
    uint64_t row = 0;
    const bool finite = ReadRow(sequence, sample.row, row);
    const TokenId token = finite ? model_.Sample(row, sample) : -1;
    result.tokens.push_back(token);
    result.status.push_back(finite ? RowStatus::kOk : RowStatus::kNonFinite);
    if (sample.params->num_logprobs < 0) return;
    model_.AppendLogprobs(row, token, sample.params->num_logprobs, result.logprobs);
  }

  void DoScore(int32_t sequence, const StepScore& score, StepResult& result) {
    uint64_t row = 0;
    const bool finite = ReadRow(sequence, score.row, row);
    result.score_status.push_back(finite ? RowStatus::kOk : RowStatus::kNonFinite);
    model_.AppendLogprobs(row, score.target, score.num_top, result.prompt_logprobs);
  }

  FakeRunnerOptions options_;
  FakeModel model_;
  std::vector<uint64_t> slots_;
  Faults next_;
  std::array<StepInFlight, 2> steps_;
  size_t oldest_ = 0, num_in_flight_ = 0;

  // State of the step that is being computed, and the samples of the previous step.
  Step step_;
  int32_t poison_row_ = -1;
  std::vector<TokenId> tokens_, sampled_before_;
  std::vector<TokenCount> counted_;
  bool nothing_before_ = false;

  Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t num_launched_ ABSL_GUARDED_BY(mutex_) = 0, num_computed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_waited_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Declared last: the thread uses all other members.
  std::thread thread_;
};

}  // namespace incipit
