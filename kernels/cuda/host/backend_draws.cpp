// The draws and scores of the backend's steps.
#include <utility>

#include "base/check.h"
#include "kernels/cuda/host/backend.h"

namespace incipit::cuda {

// Those of earlier calls of the step stay.
bool CudaBackend::GrowDrawn(int64_t num_draws) {
  const size_t bytes = static_cast<size_t>(num_draws) * sizeof(int32_t);
  if (drawn_.byte_size() >= bytes) return true;
  if (!Note(stream_.Wait())) return false;
  ForgetGraphs();
  auto memory = Memory::Allocate(Place::kDevice, 2 * bytes);
  if (!Note(memory.status())) return false;
  stream_.Copy(memory->data(), drawn_.data(), drawn_.byte_size());
  if (!Note(stream_.Wait())) return false;
  drawn_ = *std::move(memory);
  return true;
}

void CudaBackend::Sample(const SampleArgs& args) {
  if (!status_.ok()) return;
  const bool has_best = args.is_latest && args.logits.rows <= StepMemory::kFirstRows;
  const BestOfUnits best = {.logits = has_best ? best_logits_.as<float>() : nullptr,
                            .tokens = has_best ? best_tokens_.as<int32_t>() : nullptr};
  if (draws_.has_value()) {
    INCIPIT_CHECK(args.rows.data() == inputs_.draws->rows.data());
    num_drawn_ = std::ssize(args.rows);
    const int32_t groups_max = has_graph_ ? rows_ : draws_->num_groups;
    sampler_.LaunchPacked(args.logits, step_.draws(), best, groups_max, drawn_.as<int32_t>(),
                          stream_);
    if (!is_recording_) sampler_.FetchPacked(latest_, stream_);
    return;
  }
  const int64_t first = num_drawn_;
  num_drawn_ += std::ssize(args.rows);
  if (!GrowDrawn(num_drawn_)) return;
  const int64_t vocab_size = sampler_.vocab_size();
  Note(sampler_.Sample(args, best, drawn_.as<int32_t>() + first, latest_, stream_));
  if (sampler_.vocab_size() != vocab_size) ForgetGraphs();  // they know its memory
}

void CudaBackend::Score(const ScoreArgs& args) {
  if (!status_.ok()) return;
  const int64_t vocab_size = sampler_.vocab_size();
  Note(sampler_.Score(args, latest_, stream_));
  if (sampler_.vocab_size() != vocab_size) ForgetGraphs();
}

}  // namespace incipit::cuda
