// Which attention kernels serve which shapes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args);

// Of PagedAttentionArgs::scratch, for one launch.
size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms);

// `list` as the host has it: of prefill tiles a graph knows the number, of decode items it does
// not.
void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args);

}  // namespace incipit::cuda
