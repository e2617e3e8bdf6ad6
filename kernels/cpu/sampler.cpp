#include "kernels/cpu/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/sampling.h"

namespace incipit {
namespace {

std::span<const float> RowOf(const TensorView& logits, int32_t row) {
  INCIPIT_CHECK(row >= 0 && row < logits.rows);
  return {static_cast<const float*>(logits.data) + row * logits.cols,
          static_cast<size_t>(logits.cols)};
}

void CheckLogits(const TensorView& logits) {
  INCIPIT_CHECK(logits.dtype == DType::kF32 && logits.cols > 0);
  INCIPIT_CHECK(logits.cols <= int64_t{1} << kVocabBitsMax);
}

}  // namespace

CpuSampler::CpuSampler(const simd::Kernels& kernels, const Threads& threads) : threads_(threads) {
  samplers_.reserve(static_cast<size_t>(threads.count()));
  for (int32_t i = 0; i < threads.count(); ++i) samplers_.emplace_back(kernels);
}

void CpuSampler::Sample(const SampleArgs& args) {
  CheckLogits(args.logits);
  INCIPIT_CHECK(args.tokens.size() == args.rows.size());
  INCIPIT_CHECK(args.status.size() == args.rows.size());
  const int64_t count = std::ssize(args.rows);
  threads_.ForEach(count, count * args.logits.cols, [&](int64_t i, int32_t thread) {
    const SampleRow& row = args.rows[i];
    const TokenId token = samplers_[thread].Draw(row, RowOf(args.logits, row.logits_row));
    args.tokens[i] = token;
    args.status[i] = token >= 0 ? RowStatus::kOk : RowStatus::kNonFinite;
  });
  wanted_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const SampleRow& row = args.rows[i];
    if (row.params->num_logprobs < 0) continue;
    wanted_.push_back({.logits_row = row.logits_row,
                       .token = args.tokens[i],
                       .num_top = row.params->num_logprobs,
                       .finite = args.status[i] == RowStatus::kOk});
  }
  if (!wanted_.empty()) AppendLogprobs(args.logits, *args.logprobs);
}

void CpuSampler::Score(const ScoreArgs& args) {
  CheckLogits(args.logits);
  INCIPIT_CHECK(args.status.size() == args.rows.size());
  wanted_.clear();
  for (size_t i = 0; i < args.rows.size(); ++i) {
    const ScoreRow& row = args.rows[i];
    INCIPIT_CHECK(row.target >= 0 && row.target < args.logits.cols);
    const std::span<const float> logits = RowOf(args.logits, row.logits_row);
    const bool finite = samplers_.front().IsFinite(logits);
    args.status[i] = finite ? RowStatus::kOk : RowStatus::kNonFinite;
    wanted_.push_back({.logits_row = row.logits_row,
                       .token = row.target,
                       .num_top = row.num_top,
                       .finite = finite});
  }
  AppendLogprobs(args.logits, *args.logprobs);
}

// Makes room for every row in order, then fills the rows on all threads.
void CpuSampler::AppendLogprobs(const TensorView& logits, Logprobs& logprobs) {
  const size_t first = logprobs.chosen.size();
  for (LogprobRow& row : wanted_) {
    const int64_t num_top = row.finite ? std::max(row.num_top, 0) : 0;
    row.num_top = static_cast<int32_t>(std::min(num_top, logits.cols));
    row.top_begin = logprobs.top.size();
    logprobs.top.resize(logprobs.top.size() + static_cast<size_t>(row.num_top));
    logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
    logprobs.chosen.push_back({row.token, 0});
    logprobs.rank.push_back(0);
  }
  const int64_t count = std::ssize(wanted_);
  threads_.ForEach(count, count * logits.cols, [&](int64_t i, int32_t thread) {
    const LogprobRow& row = wanted_[i];
    if (!row.finite) return;
    samplers_[thread].FillLogprobs(
        RowOf(logits, row.logits_row), row.token,
        {.chosen = &logprobs.chosen[first + i],
         .rank = &logprobs.rank[first + i],
         .top = std::span(logprobs.top).subspan(row.top_begin, static_cast<size_t>(row.num_top))});
  });
}

}  // namespace incipit
