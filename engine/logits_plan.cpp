#include "engine/logits_plan.h"

#include <cstddef>

namespace incipit {

void LogitsPlan::Reserve(int32_t chunk_rows, int32_t tokens_max, int32_t samples_max) {
  chunk_rows_ = chunk_rows;
  rows_.reserve(static_cast<size_t>(tokens_max));
  chunks_.reserve(static_cast<size_t>((tokens_max - 1) / chunk_rows + 1));
  sample_rows_.reserve(static_cast<size_t>(samples_max));
  score_rows_.reserve(static_cast<size_t>(tokens_max));
}

// Finds the rows (tokens of `step`) whose logits are needed for samples or scores (log
// probabilities of prompt tokens). REQUIRES: the samples are sorted by row, and so are the scores.
void LogitsPlan::Build(const Step& step) {
  rows_.clear();
  chunks_.clear();
  sample_rows_.clear();
  score_rows_.clear();
  const std::span<const StepSample> samples = step.samples;
  const std::span<const StepScore> scores = step.scores;
  size_t sample = 0, score = 0;
  while (sample < samples.size() || score < scores.size()) {
    const bool is_sample = score == scores.size() ||
                           (sample < samples.size() && samples[sample].row <= scores[score].row);
    const int32_t row = is_sample ? samples[sample].row : scores[score].row;
    if (rows_.empty() || rows_.back() != row) AddRow(row);
    Chunk& chunk = chunks_.back();
    const int32_t row_of_chunk = chunk.row_end - 1 - chunk.row_begin;
    if (is_sample) {
      sample_rows_.push_back(row_of_chunk);
      chunk.sample_end = static_cast<int32_t>(++sample);
    } else {
      score_rows_.push_back(row_of_chunk);
      chunk.score_end = static_cast<int32_t>(++score);
    }
  }
}

void LogitsPlan::AddRow(int32_t row) {
  if (chunks_.empty()) {
    chunks_.emplace_back();
  } else if (const Chunk& last = chunks_.back(); last.row_end - last.row_begin == chunk_rows_) {
    chunks_.push_back({.row_begin = last.row_end,
                       .row_end = last.row_end,
                       .sample_begin = last.sample_end,
                       .sample_end = last.sample_end,
                       .score_begin = last.score_end,
                       .score_end = last.score_end});
  }
  rows_.push_back(row);
  ++chunks_.back().row_end;
}

}  // namespace incipit
