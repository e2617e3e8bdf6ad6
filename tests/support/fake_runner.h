// A model that notices every mistake in sharing. Its keys and values depend, as real ones do, on
// all tokens before them: each slot stores a hash of the slot before it and its own token, and an
// answer is a hash of all slots read through the block table. A block that is shared, evicted,
// copied or written wrongly anywhere in the prefix changes the text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/model_runner.h"

namespace incipit {

// The fake model as a function of whole token strings, computed without any cache: what FakeRunner
// must answer.
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
  // What a row knows after attending to the slots of positions 0 .. its own.
  static uint64_t Row(std::span<const TokenId> tokens) {
    uint64_t slot = 0, row = 0;
    for (const TokenId token : tokens) {
      slot = Slot(slot, token);
      row = Mix(row, slot);
    }
    return row;
  }

  // As a sampler: a function of the row, seed, choice, position, penalties and bans, and of nothing
  // else.
  TokenId Sample(uint64_t row, const Draw& draw) const {
    uint64_t bits = Mix(row, draw.params->seed);
    bits = Mix(Mix(bits, static_cast<uint64_t>(draw.choice)), static_cast<uint64_t>(draw.position));
    for (const TokenCount& count : draw.counts) {
      bits = Mix(bits, static_cast<uint64_t>(count.token));
      bits = Mix(bits, static_cast<uint64_t>(count.in_prompt));
      bits = Mix(bits, static_cast<uint64_t>(count.in_answer));
    }
    const auto first = static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_));
    for (int32_t i = 0; i < vocab_; ++i) {
      const TokenId token = (first + i) % vocab_;
      if (std::ranges::find(draw.banned, token) == draw.banned.end()) return token;
    }
    return first;
  }

  float Logprob(uint64_t row, TokenId token) const {
    return -static_cast<float>(Mix(row, static_cast<uint64_t>(token)) % 1024) / 64;
  }
  // Appends one row: the token's own, and `num_top` others.
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
};

class FakeRunner : public ModelRunner {
 public:
  explicit FakeRunner(const FakeRunnerOptions& options)
      : options_(options),
        model_(options.vocab),
        slots_(static_cast<size_t>(options.num_blocks) * static_cast<size_t>(options.block_size),
               0xdead) {}

  // The next step reports `status` and does nothing.
  void FailNextStep(absl::Status status) { next_status_ = std::move(status); }
  // The next step stores a value that is not finite for its token `row` (modulo their number).
  // Every row that reads it is not finite either, until the slot is written again.
  void PoisonNextStep(int32_t row) { poison_row_ = row; }

  absl::Status Launch(const StepBatch& batch) override {
    batch_ = batch;
    return absl::OkStatus();
  }

  absl::Status Wait(StepResult& result) override {
    if (!next_status_.ok()) return std::exchange(next_status_, absl::OkStatus());
    result.tokens.clear();
    result.status.clear();
    result.score_status.clear();
    result.logprobs.Clear();
    result.prompt_logprobs.Clear();
    CheckShape();
    DoCopies();
    WriteSlots();
    for (const Draw& draw : batch_.draws) DoDraw(draw, result);
    for (const PromptScore& score : batch_.scores) DoScore(score, result);
    return absl::OkStatus();
  }

  const FakeModel& model() const { return model_; }

 private:
  static constexpr uint64_t kPoison = ~uint64_t{0};

  int32_t num_sequences() const { return static_cast<int32_t>(batch_.token_begin.size()) - 1; }
  std::span<const BlockId> TableOf(int32_t sequence) const {
    return batch_.blocks.subspan(batch_.block_begin[sequence],
                                 batch_.block_begin[sequence + 1] - batch_.block_begin[sequence]);
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
    INCIPIT_CHECK(batch_.positions.size() == batch_.tokens.size());
    INCIPIT_CHECK(batch_.block_begin.size() == batch_.token_begin.size());
    INCIPIT_CHECK(batch_.token_begin[num_sequences()] ==
                  static_cast<int32_t>(batch_.tokens.size()));
    INCIPIT_CHECK(std::ranges::is_sorted(batch_.draws, {}, &Draw::row));
    INCIPIT_CHECK(std::ranges::is_sorted(batch_.scores, {}, &PromptScore::row));
  }

  // A device does them in any order.
  void DoCopies() {
    for (const BlockCopy& copy : batch_.copies) {
      const auto touches = [&](const BlockCopy& other) {
        return &other != &copy && (other.to == copy.from || other.to == copy.to);
      };
      INCIPIT_CHECK(copy.from != copy.to && std::ranges::none_of(batch_.copies, touches));
      for (int32_t i = 0; i < copy.num_tokens; ++i) Slot(copy.to, i) = Slot(copy.from, i);
    }
  }

  void WriteSlots() {
    for (int32_t s = 0; s < num_sequences(); ++s) {
      const auto table = TableOf(s);
      for (int32_t i = batch_.token_begin[s]; i < batch_.token_begin[s + 1]; ++i) {
        const int32_t position = batch_.positions[i];
        const uint64_t before = position == 0 ? 0 : Slot(table, position - 1);
        uint64_t& slot = Slot(table, position);
        slot = before == kPoison ? kPoison : FakeModel::Slot(before, batch_.tokens[i]);
        const auto num_tokens = static_cast<int32_t>(batch_.tokens.size());
        if (poison_row_ >= 0 && poison_row_ % num_tokens == i) slot = kPoison;
      }
    }
    poison_row_ = -1;
  }

  // False: not finite.
  bool ReadRow(int32_t token_row, uint64_t& row) {
    const auto after = std::ranges::upper_bound(batch_.token_begin, token_row);
    const auto s = static_cast<int32_t>(after - batch_.token_begin.begin()) - 1;
    row = 0;
    for (int32_t p = 0; p <= batch_.positions[token_row]; ++p) {
      const uint64_t slot = Slot(TableOf(s), p);
      if (slot == kPoison) return false;
      row = FakeModel::Mix(row, slot);
    }
    return true;
  }

  void DoDraw(const Draw& draw, StepResult& result) {
    uint64_t row = 0;
    const bool finite = ReadRow(draw.row, row);
    const TokenId token = finite ? model_.Sample(row, draw) : -1;
    result.tokens.push_back(token);
    result.status.push_back(finite ? RowStatus::kOk : RowStatus::kNonFinite);
    if (draw.params->num_logprobs < 0) return;
    model_.AppendLogprobs(row, token, draw.params->num_logprobs, result.logprobs);
  }

  void DoScore(const PromptScore& score, StepResult& result) {
    uint64_t row = 0;
    const bool finite = ReadRow(score.row, row);
    result.score_status.push_back(finite ? RowStatus::kOk : RowStatus::kNonFinite);
    model_.AppendLogprobs(row, score.target, score.num_top, result.prompt_logprobs);
  }

  FakeRunnerOptions options_;
  FakeModel model_;
  std::vector<uint64_t> slots_;
  StepBatch batch_;
  absl::Status next_status_;
  int32_t poison_row_ = -1;
};

}  // namespace incipit
