#include "kernels/cpu/sampler.h"

#include <algorithm>

#include "kernels/checks.h"

namespace incipit {
namespace {

std::span<const float> RowOf(const TensorView& logits, int32_t row) {
  return {static_cast<const float*>(logits.data) + row * logits.cols,
          static_cast<size_t>(logits.cols)};
}

}  // namespace

CpuSampler::CpuSampler(const simd::Kernels& kernels, const Threads& threads) : threads_(threads) {
  samplers_.reserve(static_cast<size_t>(threads.count()));
  for (int32_t i = 0; i < threads.count(); ++i) samplers_.emplace_back(kernels);
}

void CpuSampler::Sample(const SampleArgs& args) {
  CheckSampleArgs(args);
  const int64_t count = std::ssize(args.samples);
  threads_.ForEach(count, count * args.logits.cols, [&](int64_t i, int32_t thread) {
    const TokenId token =
        samplers_[thread].Sample(args.samples[i], RowOf(args.logits, args.logits_rows[i]));
    args.tokens[i] = token;
    args.status[i] = token >= 0 ? RowStatus::kOk : RowStatus::kNonFinite;
  });
  wanted_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t num_logprobs = args.samples[i].params->num_logprobs;
    if (num_logprobs < 0) continue;
    wanted_.push_back({.logits_row = args.logits_rows[i],
                       .token = args.tokens[i],
                       .num_top = num_logprobs,
                       .finite = args.status[i] == RowStatus::kOk});
  }
  if (!wanted_.empty()) AppendLogprobs(args.logits, *args.logprobs);
}

void CpuSampler::Score(const ScoreArgs& args) {
  CheckScoreArgs(args);
  wanted_.clear();
  for (size_t i = 0; i < args.scores.size(); ++i) {
    const StepScore& score = args.scores[i];
    const int32_t row = args.logits_rows[i];
    const bool finite = samplers_.front().IsFinite(RowOf(args.logits, row));
    args.status[i] = finite ? RowStatus::kOk : RowStatus::kNonFinite;
    wanted_.push_back(
        {.logits_row = row, .token = score.target, .num_top = score.num_top, .finite = finite});
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
