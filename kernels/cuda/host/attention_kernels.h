// Selects and launches the attention kernels for a head dimension and a page size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args);

// Returns the size in bytes of the workspace PagedAttentionArgs::scratch for one launch of
// PrefillAttention.
size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms);

// Launches the attention kernels for one AttentionList: the attention work of a step for layers
// with the same sliding window. `list` is the host's copy of the list. A CUDA graph that is
// recorded while `list` has no prefill tiles never computes prefill tiles.
void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args);

}  // namespace incipit::cuda
