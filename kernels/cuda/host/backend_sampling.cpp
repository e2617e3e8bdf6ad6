// Implements Sample and Score of the CUDA backend.
#include <utility>

#include "base/check.h"
#include "kernels/cuda/host/backend.h"

namespace incipit::cuda {

// Makes the device array sampled_ large enough for `num_samples` tokens, and keeps its contents.
// Returns false if an error occurs.
bool CudaBackend::GrowSampled(int64_t num_samples) {
  const size_t bytes = SampledBytes(num_samples);
  if (sampled_.byte_size() >= bytes) return true;
  if (!Note(stream_.Wait())) return false;
  ForgetGraphs();
  auto memory = Memory::Allocate(Place::kDevice, 2 * bytes);
  if (!Note(memory.status())) return false;
  stream_.Copy(memory->data(), sampled_.data(), sampled_.byte_size());
  if (!Note(stream_.Wait())) return false;
  sampled_ = *std::move(memory);
  return true;
}

void CudaBackend::CheckPendingTokens(std::span<const StepSample> samples) const {
  for (const StepSample& sample : samples) {
    INCIPIT_CHECK(sample.pending_sample < num_sampled_before_ || !status_.ok());
  }
}

void CudaBackend::Sample(const SampleArgs& args) {
  if (!status_.ok()) return;
  const bool has_best = args.is_latest && args.logits.rows <= StepMemory::kFirstRows;
  const BestOfUnits best = {.logits = has_best ? best_logits_.as<float>() : nullptr,
                            .tokens = has_best ? best_tokens_.as<int32_t>() : nullptr};
  if (packed_samples_.has_value()) {
    INCIPIT_CHECK(args.samples.data() == logits_.samples->samples.data());
    num_sampled_ = std::ssize(args.samples);
    const int32_t groups_max = has_graph_ ? rows_ : packed_samples_->num_groups;
    sampler_.LaunchPacked(args.logits, step_.samples(), best, groups_max, sampled_.as<int32_t>(),
                          stream_);
    if (!is_recording_) sampler_.FetchPacked(latest_, stream_);
    return;
  }
  CheckPendingTokens(args.samples);
  const SampledRange range = {.first = num_sampled_, .which = latest_};
  num_sampled_ += std::ssize(args.samples);
  if (!GrowSampled(num_sampled_)) return;
  const int64_t vocab_size = sampler_.vocab_size();
  Note(sampler_.Sample(args, best, sampled_.as<int32_t>(), range, stream_));
  // Discards the recorded CUDA graphs if the sampler has reallocated its memory, because the graphs
  // contain the old addresses.
  if (sampler_.vocab_size() != vocab_size) ForgetGraphs();
}

void CudaBackend::Score(const ScoreArgs& args) {
  if (!status_.ok()) return;
  const int64_t vocab_size = sampler_.vocab_size();
  Note(sampler_.Score(args, latest_, stream_));
  if (sampler_.vocab_size() != vocab_size) ForgetGraphs();
}

}  // namespace incipit::cuda
