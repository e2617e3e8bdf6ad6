// Launches the attention kernels that are compiled for the model's head dimension and page size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args);

// Returns the size in bytes of the workspace that one launch of kernel PrefillAttention needs on a
// GPU with `num_sms` multiprocessors.
size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms);

// Launches the attention kernels for the work items in `list`. If `list` has no prefill work items,
// does not launch the prefill kernel.
void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args);

}  // namespace incipit::cuda
