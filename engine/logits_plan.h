// The token rows of a step that need logits, and the chunks in which a runner computes these
// logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step.h"

namespace incipit {

// Selects the token rows of a step that need logits, and splits these rows into chunks. After
// Reserve, steps within the reserved bounds allocate no memory.
class LogitsPlan {
 public:
  // Rows of logits that are computed together, and the samples and scores that need these rows.
  struct Chunk {
    int32_t row_begin = 0, row_end = 0;        // range [begin, end) of rows()
    int32_t sample_begin = 0, sample_end = 0;  // range [begin, end) of the samples of the step
    int32_t score_begin = 0, score_end = 0;    // range [begin, end) of the scores of the step
  };

  // Reserves memory for steps of at most `tokens_max` tokens and `samples_max` samples.
  // `chunk_rows` is the maximum number of rows in a chunk.
  void Reserve(int32_t chunk_rows, int32_t tokens_max, int32_t samples_max);

  void Build(const Step& step);

  // Returns the token rows that need logits, in ascending order. Each row occurs once.
  std::span<const int32_t> rows() const { return rows_; }
  std::span<const Chunk> chunks() const { return chunks_; }
  // Returns the row of each sample of the step, as an index within the chunk of the sample.
  std::span<const int32_t> sample_rows() const { return sample_rows_; }
  // Returns the row of each score of the step, as an index within the chunk of the score.
  std::span<const int32_t> score_rows() const { return score_rows_; }

 private:
  void AddRow(int32_t row);

  int32_t chunk_rows_ = 1;
  std::vector<int32_t> rows_, sample_rows_, score_rows_;
  std::vector<Chunk> chunks_;
};

}  // namespace incipit
