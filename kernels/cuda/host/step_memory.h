// Copies the data of a step (batch) to the device: attention plan, tokens, rows of logits and
// samples. Each of the two steps in flight has its own pinned host memory. Both steps use the same
// device memory, because one stream runs them one after the other.
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

// Properties of the model's attention: KV cache page size, number of query heads per KV head, and
// sliding windows. They are known after the first attention operation.
struct AttentionForm {
  int32_t page_size = 16, group = 1;
  std::vector<int32_t> windows;

  bool operator==(const AttentionForm&) const = default;
};

class StepMemory {
 public:
  // Allocates memory for steps (batches) within `bounds`, and for attention work items. `form`:
  // properties of the model's attention, for example the page size. REQUIRES: the stream is idle.
  absl::Status Reserve(const StepBounds& bounds, const AttentionForm& form);
  bool Holds(const Step& step, std::span<const int32_t> logits_rows) const;
  const StepBounds& bounds() const { return bounds_; }
  const AttentionForm& form() const { return form_; }

  // Enqueues the copy of a step (batch) to the device. If the step does not match form() (the
  // properties of the model's attention), copies no attention work items and returns false.
  // REQUIRES: the previous copy with the same `which` (0 or 1) has ended.
  bool Upload(const Step& step, std::span<const int32_t> logits_rows,
              const std::optional<PackedSamples>& samples, size_t which, Stream& stream);

  // Returns the device address of the step's number of tokens. The address is the same for all
  // steps (batches).
  const int32_t* num_tokens() const { return &header()->num_tokens; }
  const StepHeader* header() const { return At<const StepHeader>(kPlanAt); }
  const SampleHeader* samples() const { return At<const SampleHeader>(kSamplesAt); }
  // Returns the device address of a number: the number of rows of logits of the step (batch), at
  // most kFirstRows.
  const int32_t* num_logits_rows() const { return At<int32_t>(kNumRowsAt); }
  // Returns the device address of an array of kFirstRows numbers. Element i is the index, in the
  // step (batch), of the token to which row i of the logits belongs. The address is the same for
  // all steps.
  const int32_t* first_logits_rows() const { return At<int32_t>(kRowsAt); }
  static constexpr int32_t kFirstRows = 256;
  // Returns the device address of an array. Element i is the index, in the step (batch), of the
  // token to which row i of the logits belongs. The address may differ between steps.
  const int32_t* logits_rows() const { return At<int32_t>(logits_rows_); }
  // Returns the device address of the numbers 0, 1, 2, ..., kFirstRows. A kernel that expects the
  // address of a number, instead of the number, can use this array.
  const int32_t* counts() const { return At<int32_t>(0); }

  // Returns the host's copy of the StepHeader of the latest step (batch).
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
  size_t logits_rows_ = 0;  // byte offset of the array logits_rows() from the start of device_
  Memory device_;
  std::array<Memory, 2> pinned_;
};

}  // namespace incipit::cuda
