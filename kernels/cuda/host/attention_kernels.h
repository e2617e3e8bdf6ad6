// Selects and launches the attention kernel for a head dimension and a page size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args);

// Returns the size in bytes of PagedAttentionArgs::scratch, the workspace of one launch of
// PrefillAttention.
size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms);

// Launches the attention kernels for one AttentionList of the step's plan. `list` is the host's
// copy of the AttentionList. For a given model, the launches depend only on whether `list` has
// prefill tiles, so a recorded graph serves any number of decode items.
void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args);

}  // namespace incipit::cuda
