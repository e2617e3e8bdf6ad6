// The data that is copied to the device once for each step: the plan of attention, tokens, rows of
// logits and samples. Two steps may be in flight. Each step has its own pinned memory; both use the
// same device memory, and the order of the stream keeps the steps apart.
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

// The properties on which the plan of attention depends besides the step. The properties are known
// after the first attention operation.
struct AttentionForm {
  int32_t page_size = 16, group = 1;
  std::vector<int32_t> windows;

  bool operator==(const AttentionForm&) const = default;
};

class StepMemory {
 public:
  // Allocates memory for steps within `bounds` and for this form. REQUIRES: the stream is idle.
  absl::Status Reserve(const StepBounds& bounds, const AttentionForm& form);
  bool Holds(const Step& step, std::span<const int32_t> logits_rows) const;
  const StepBounds& bounds() const { return bounds_; }
  const AttentionForm& form() const { return form_; }

  // Enqueues the copy of a step, and of its samples if there are any. `which` alternates between 0
  // and 1; the previous step with the same `which` must have ended. Returns false if the copy has
  // no plan of attention, because the form does not match the step.
  bool Upload(const Step& step, std::span<const int32_t> logits_rows,
              const std::optional<PackedSamples>& samples, size_t which, Stream& stream);

  // Device pointers to the latest upload; the pointers do not change between steps.
  const int32_t* num_tokens() const { return &header()->num_tokens; }
  const StepHeader* header() const { return At<const StepHeader>(kPlanAt); }
  const SampleHeader* samples() const { return At<const SampleHeader>(kSamplesAt); }
  // The number of rows of logits, at most kFirstRows.
  const int32_t* num_logits_rows() const { return At<int32_t>(kNumRowsAt); }
  // The first rows of logits, at most kFirstRows.
  const int32_t* first_logits_rows() const { return At<int32_t>(kRowsAt); }
  static constexpr int32_t kFirstRows = 256;
  // All rows of logits. The address differs between steps.
  const int32_t* logits_rows() const { return At<int32_t>(logits_rows_); }
  // An array whose element i is i, for i in [0, kFirstRows].
  const int32_t* counts() const { return At<int32_t>(0); }

  // The host's copy of the latest upload's header.
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
  size_t logits_rows_ = 0;  // offset in bytes
  Memory device_;
  std::array<Memory, 2> pinned_;
};

}  // namespace incipit::cuda
