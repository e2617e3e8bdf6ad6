// CUDA graphs of the backend. For each number of rows in kGraphRows, a step (batch) without prefill
// is recorded as a CUDA graph. Later steps without prefill launch the smallest graph with enough
// rows.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/host/backend.h"

namespace incipit::cuda {
namespace {

// Numbers of rows (one for each token) for which steps without prefill are recorded as CUDA graphs.
constexpr int32_t kGraphRows[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

}  // namespace

int32_t CudaBackend::GraphRowsFor(int32_t num_tokens) {
  for (const int32_t rows : kGraphRows) {
    if (num_tokens <= rows) return rows;
  }
  return 0;
}

void CudaBackend::RunStep(const void* owner, absl::FunctionRef<void()> enqueue) {
  if (!status_.ok()) return;
  const int32_t rows = GraphRowsFor(num_tokens());
  const StepHeader& header = step_.host_header();
  const bool has_prefill = std::ranges::any_of(
      header.lists, [](const AttentionList& list) { return list.num_prefill_tiles > 0; });
  const bool can_sample = logits_.samples == nullptr || packed_samples_.has_value();
  if (rows == 0 || has_prefill || !step_is_planned_ || !can_sample) return enqueue();
  rows_ = rows;
  has_graph_ = true;
  const GraphKey key = {.owner = owner, .rows = rows};
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    // The first step (batch) with this number of rows (tokens) is not recorded, because `enqueue`
    // may allocate memory, which CUDA forbids during recording. An allocation discards all recorded
    // CUDA graphs and increases num_forgotten_.
    const int64_t num_forgotten = num_forgotten_;
    enqueue();
    if (num_forgotten == num_forgotten_) graphs_.emplace(key, std::nullopt);
    return;
  }
  if (!found->second.has_value() && !Record(found->second, enqueue)) return;
  found->second->Launch(stream_);
  if (!packed_samples_.has_value()) return;
  num_sampled_ = std::ssize(logits_.samples->samples);
  sampler_.FetchPacked(latest_, stream_);
}

absl::Status CudaBackend::RecordSteps(const void* owner, int32_t tokens_max, const Step& step,
                                      const StepLogits& logits, absl::FunctionRef<void()> enqueue) {
  const int32_t most = tokens_max > std::ranges::max(kGraphRows) ? std::ranges::max(kGraphRows)
                                                                 : GraphRowsFor(tokens_max);
  for (const int32_t rows : kGraphRows) {
    if (rows > most) break;
    Upload(step, logits);
    // Runs the operations once before recording: the first launch of a kernel may load code or
    // allocate memory, which CUDA forbids during recording.
    const int64_t num_forgotten = num_forgotten_;
    rows_ = rows;
    has_graph_ = true;
    enqueue();
    if (num_forgotten == num_forgotten_) Record(graphs_[{.owner = owner, .rows = rows}], enqueue);
    INCIPIT_RETURN_IF_ERROR(Synchronize());
  }
  return absl::OkStatus();
}

void CudaBackend::ForgetGraphs() {
  INCIPIT_CHECK(!is_recording_);
  graphs_.clear();
  ++num_forgotten_;
}

bool CudaBackend::Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue) {
  Graph::Begin(stream_);
  is_recording_ = true;
  // Discards an RMSNorm that an earlier operation has prepared, so that the recorded operations
  // compute the RMSNorm themselves.
  next_norm_ = {};
  enqueue();
  is_recording_ = false;
  auto recorded = Graph::End(stream_);
  if (!Note(recorded.status())) return false;
  graph = *std::move(recorded);
  return true;
}

}  // namespace incipit::cuda
