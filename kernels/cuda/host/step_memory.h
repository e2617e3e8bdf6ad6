// The data that is copied to the device once for each step: the plan of attention, tokens, rows of
// logits and samples. Two steps may be in flight. Each of the two steps has its own pinned memory.
// Both steps use the same device memory, one after the other, because their work is on one stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/host/attention_plan.h"
#include "kernels/cuda/host/sample_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// The properties of the model on which the plan of attention depends, in addition to the step. The
// properties are known after the first attention operation.
struct AttentionForm {
  int32_t page_size = 16, group = 1;
  std::vector<int32_t> windows;

  bool operator==(const AttentionForm&) const = default;
};

class StepMemory {
 public:
  // Allocates memory for steps within `bounds` and for the properties `form`. REQUIRES: the stream
  // is idle.
  absl::Status Reserve(const StepBounds& bounds, const AttentionForm& form);
  bool Holds(const Step& step, std::span<const int32_t> logits_rows) const;
  const StepBounds& bounds() const { return bounds_; }
  const AttentionForm& form() const { return form_; }

  // Enqueues the copy of a step, and of its samples if there are any. `which` alternates between 0
  // and 1; the previous step with the same `which` must have ended. Returns false if the copy
  // contains no plan of attention, because the properties form() do not match the step.
  bool Upload(const Step& step, std::span<const int32_t> logits_rows,
              const std::optional<PackedSamples>& samples, size_t which, Stream& stream);

  // Returns the device address of the number of tokens of the uploaded step. The address is the
  // same for all steps.
  const int32_t* num_tokens() const { return &header()->num_tokens; }
  const StepHeader* header() const { return At<const StepHeader>(kPlanAt); }
  const SampleHeader* samples() const { return At<const SampleHeader>(kSamplesAt); }
  // Returns the device address of the number of rows of logits of the uploaded step. The number is
  // at most kFirstRows.
  const int32_t* num_logits_rows() const { return At<int32_t>(kNumRowsAt); }
  // Returns the device address of the first rows of logits (indices of tokens), at most kFirstRows.
  const int32_t* first_logits_rows() const { return At<int32_t>(kRowsAt); }
  static constexpr int32_t kFirstRows = 256;
  // Returns the device address of all rows of logits (indices of tokens). The address differs
  // between steps.
  const int32_t* logits_rows() const { return At<int32_t>(logits_rows_); }
  // Returns the device address of an array whose element i is i, for i in [0, kFirstRows + 1).
  const int32_t* counts() const { return At<int32_t>(0); }

  // Returns the host's copy of the StepHeader of the latest upload.
  const StepHeader& host_header() const { return host_header_; }
  const AttentionPlan& plan() const { return *attention_; }

 private:
  static constexpr size_t kNumRowsAt = (kFirstRows + 1) * sizeof(int32_t);
  static constexpr size_t kRowsAt = kNumRowsAt + sizeof(int32_t);
  static constexpr size_t kSamplesAt =
      (kRowsAt + kFirstRows * sizeof(int32_t) + alignof(SampleHeader) - 1) / alignof(SampleHeader) *
      alignof(SampleHeader);
  static constexpr size_t kPlanAt = kSamplesAt + sizeof(SampleHeader);

  bool FitsForm(const Step& step) const;
  template <class T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(device_.as<char>() + offset);
  }

  StepBounds bounds_;
  AttentionForm form_;
  std::optional<AttentionPlan> attention_;
  StepHeader host_header_;
  size_t logits_rows_ = 0;  // offset in bytes of all rows of logits in device_
  Memory device_;
  std::array<Memory, 2> pinned_;
};

}  // namespace incipit::cuda
