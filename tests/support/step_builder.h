// The parts of a StepBatch, put together sequence by sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_runner.h"

namespace incipit {

class StepBuilder {
 public:
  // Computes `tokens` at positions from `first` on, in `blocks`. Returns the step's row of the
  // first.
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
    return row;
  }
  void AddCopy(BlockCopy copy) { copies_.push_back(copy); }
  // Until the next one is added.
  Draw& AddDraw(int32_t row, const SamplingParams& params, int32_t choice, int64_t position) {
    Draw& draw = draws_.emplace_back();
    draw.row = row;
    draw.params = &params;
    draw.choice = choice;
    draw.position = position;
    return draw;
  }
  void AddScore(PromptScore score) { scores_.push_back(score); }

  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }

  StepBatch Batch() const {
    return {.tokens = tokens_,
            .positions = positions_,
            .token_begin = token_begin_,
            .block_begin = block_begin_,
            .blocks = blocks_,
            .copies = copies_,
            .draws = draws_,
            .scores = scores_};
  }

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_ = {0}, block_begin_ = {0};
  std::vector<BlockId> blocks_;
  std::vector<BlockCopy> copies_;
  std::vector<Draw> draws_;
  std::vector<PromptScore> scores_;
};

}  // namespace incipit
