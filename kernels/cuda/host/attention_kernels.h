// Selects and launches the attention kernel for a shape of heads and pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args);

// Returns the size in bytes of PagedAttentionArgs::scratch for one launch.
size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms);

// Launches attention for one list. `list` is the host's copy. A recorded graph depends on the
// number of prefill tiles, but not on the number of decode items.
void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args);

}  // namespace incipit::cuda
