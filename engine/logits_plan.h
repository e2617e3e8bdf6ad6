// The token rows of a step whose logits a runner computes, and the chunks in which it computes
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step.h"

namespace incipit {

// Allocates nothing after Reserve, for steps within its bounds.
class LogitsPlan {
 public:
  // Rows that are computed at once, and the samples and scores that need them.
  struct Chunk {
    int32_t row_begin = 0, row_end = 0;        // of rows()
    int32_t sample_begin = 0, sample_end = 0;  // of the step's samples
    int32_t score_begin = 0, score_end = 0;    // of the step's scores
  };

  // `chunk_rows`: the most rows of one chunk.
  void Reserve(int32_t chunk_rows, int32_t tokens_max, int32_t samples_max);

  void Build(const Step& step);

  std::span<const int32_t> rows() const { return rows_; }  // ascending, each once
  std::span<const Chunk> chunks() const { return chunks_; }
  // Per sample and per score of the step: its row of its chunk.
  std::span<const int32_t> sample_rows() const { return sample_rows_; }
  std::span<const int32_t> score_rows() const { return score_rows_; }

 private:
  void AddRow(int32_t row);

  int32_t chunk_rows_ = 1;
  std::vector<int32_t> rows_, sample_rows_, score_rows_;
  std::vector<Chunk> chunks_;
};

}  // namespace incipit
