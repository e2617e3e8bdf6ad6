// Graphs of the CUDA backend: a decode-only step is recorded once for each bucket of rows, then
// replayed.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/host/backend.h"

namespace incipit::cuda {
namespace {

// Numbers of rows for which graphs exist. A step uses the graph of the smallest number that is not
// below its number of tokens.
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
    // An operation that needs more memory allocates the memory now, which discards all graphs.
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
    // The first run is not recorded: a kernel's first launch may load or allocate, which recording
    // does not allow.
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
  next_norm_ = {};  // a graph must compute its own norm
  enqueue();
  is_recording_ = false;
  auto recorded = Graph::End(stream_);
  if (!Note(recorded.status())) return false;
  graph = *std::move(recorded);
  return true;
}

}  // namespace incipit::cuda
