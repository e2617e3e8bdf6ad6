// What goes to the device once for each step, in one copy of what the step has: the plan of its
// attention, tokens, rows of logits and samples. Two steps may be on their way: each has pinned
// memory of its own, and both use the same place on the device, where streams keep them apart.
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

// What the plan of attention depends on besides the step; known from the first operation on.
struct AttentionForm {
  int32_t page_size = 16, group = 1;
  std::vector<int32_t> windows;

  bool operator==(const AttentionForm&) const = default;
};

class StepMemory {
 public:
  // Memory for steps within `bounds` and this form. REQUIRES: `stream` has nothing to do.
  absl::Status Reserve(const StepBounds& bounds, const AttentionForm& form);
  bool Holds(const Step& step, std::span<const int32_t> logits_rows) const;
  const StepBounds& bounds() const { return bounds_; }
  const AttentionForm& form() const { return form_; }

  // Enqueues the copy of a step, and of its samples if there are any. `which` alternates; the step
  // that used it before has ended. False: without a plan of attention, as the form is not this
  // step's.
  bool Upload(const Step& step, std::span<const int32_t> logits_rows,
              const std::optional<PackedSamples>& samples, size_t which, Stream& stream);

  // On the device, of the latest upload, always at the same place.
  const int32_t* num_tokens() const { return &header()->num_tokens; }
  const StepHeader* header() const { return At<const StepHeader>(kPlanAt); }
  const SampleHeader* samples() const { return At<const SampleHeader>(kSamplesAt); }
  // How many rows of logits there are, and which, up to kFirstRows of them.
  const int32_t* num_logits_rows() const { return At<int32_t>(kNumRowsAt); }
  const int32_t* first_logits_rows() const { return At<int32_t>(kRowsAt); }
  static constexpr int32_t kFirstRows = 256;
  // All of them, at a place of this step's, and element i of this is i, for i up to kFirstRows.
  const int32_t* logits_rows() const { return At<int32_t>(logits_rows_); }
  const int32_t* counts() const { return At<int32_t>(0); }

  // Of the latest upload, as the host has it.
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
  size_t logits_rows_ = 0;  // offset
  Memory device_;
  std::array<Memory, 2> pinned_;
};

}  // namespace incipit::cuda
