// Builds the arrays of a Step, one sequence at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step.h"

namespace incipit {

class StepBuilder {
 public:
  // Adds a sequence that computes `tokens` at the positions [first, first + tokens.size()) and
  // stores keys and values in `blocks`. Returns the row of the sequence's first token in the step.
  int32_t AddTokens(std::span<const TokenId> tokens, int32_t first,
                    std::span<const int32_t> blocks) {
    const int32_t row = num_tokens();
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens_.push_back(tokens[i]);
      positions_.push_back(first + static_cast<int32_t>(i));
    }
    for (const int32_t block : blocks) blocks_.push_back(BlockId{block});
    token_begin_.push_back(num_tokens());
    block_begin_.push_back(num_blocks());
    sample_begin_.push_back(static_cast<int32_t>(samples_.size()));
    score_begin_.push_back(static_cast<int32_t>(scores_.size()));
    return row;
  }
  void AddWrite(BlockWrite write) { writes_.push_back(write); }
  void AddCopy(BlockCopy copy) { copies_.push_back(copy); }
  // Adds a sample. The returned reference is valid until the next call of AddSample.
  StepSample& AddSample(int32_t row, const SamplingParams& params, int32_t choice,
                        int64_t position) {
    Count(row, sample_begin_);
    return samples_.emplace_back(
        StepSample{.row = row, .params = &params, .choice = choice, .position = position});
  }
  void AddScore(StepScore score) {
    Count(score.row, score_begin_);
    scores_.push_back(score);
  }

  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }

  // Returns the step. The spans in the step are valid until the next call of an Add function.
  Step Build() const {
    return {.tokens = tokens_,
            .positions = positions_,
            .token_begin = token_begin_,
            .block_begin = block_begin_,
            .blocks = blocks_,
            .writes = writes_,
            .copies = copies_,
            .sample_begin = sample_begin_,
            .samples = samples_,
            .score_begin = score_begin_,
            .scores = scores_};
  }

 private:
  // `begin` contains the bounds of one range for each sequence. Makes the range of the sequence
  // with the token row `row` longer by 1, and moves all later ranges by 1.
  void Count(int32_t row, std::vector<int32_t>& begin) const {
    for (size_t s = 0; s < begin.size(); ++s) begin[s] += token_begin_[s] > row ? 1 : 0;
  }

  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_ = {0}, block_begin_ = {0}, sample_begin_ = {0},
                                   score_begin_ = {0};
  std::vector<BlockId> blocks_;
  std::vector<BlockWrite> writes_;
  std::vector<BlockCopy> copies_;
  std::vector<StepSample> samples_;
  std::vector<StepScore> scores_;
};

}  // namespace incipit
