// Selects the tokens of a step whose logits are needed, and splits these tokens into chunks. The
// logits of a chunk are computed together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step.h"

namespace incipit {

// Selects the tokens (rows) of a step whose logits are needed, and splits these rows into chunks.
// Allocates no memory if the step is within the bounds that were passed to Reserve.
class LogitsPlan {
 public:
  // Consecutive rows whose logits are computed together, and the samples and scores (log
  // probabilities of prompt tokens) that use these logits.
  struct Chunk {
    // The elements [row_begin, row_end) of rows() belong to this chunk.
    int32_t row_begin = 0, row_end = 0;
    // The samples [sample_begin, sample_end) of the step use logits of this chunk.
    int32_t sample_begin = 0, sample_end = 0;
    // The scores [score_begin, score_end) of the step (log probabilities of prompt tokens) use
    // logits of this chunk.
    int32_t score_begin = 0, score_end = 0;
  };

  // Reserves memory for steps of at most `tokens_max` tokens and `samples_max` samples.
  // `chunk_rows` is the maximum number of rows in a chunk.
  void Reserve(int32_t chunk_rows, int32_t tokens_max, int32_t samples_max);

  void Build(const Step& step);

  // Returns the rows (indices of tokens in the step) whose logits are needed. The rows are in
  // ascending order, without duplicates.
  std::span<const int32_t> rows() const { return rows_; }
  std::span<const Chunk> chunks() const { return chunks_; }
  // Element i is the row of logits from which sample i of the step is taken. Rows are counted from
  // the first row of their chunk (rows whose logits are computed together).
  std::span<const int32_t> sample_rows() const { return sample_rows_; }
  // Element i is the row of logits for score i of the step (the log probability of a prompt token).
  // Rows are counted from the first row of their chunk (rows whose logits are computed together).
  std::span<const int32_t> score_rows() const { return score_rows_; }

 private:
  void AddRow(int32_t row);

  int32_t chunk_rows_ = 1;
  std::vector<int32_t> rows_, sample_rows_, score_rows_;
  std::vector<Chunk> chunks_;
};

}  // namespace incipit
