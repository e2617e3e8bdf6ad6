// Converts sampling and scoring requests into input arrays of the kernels Sample and Score, and
// converts the outputs back. For each kernel launch (a round), the caller copies input_bytes()
// bytes to the device, launches the kernel, and copies output_bytes() bytes back. A step (batch)
// with many rows needs several rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/sampling/sample_layout.h"

namespace incipit::cuda {

struct SampleCapacity {
  int32_t rows = 0;  // maximum number of rows of logits in one launch of a sampling kernel
  // Maximum number of LogitPatch elements (changes of logits) in one launch of a sampling kernel,
  // for all rows together. REQUIRES: patches > vocabulary size, so that one sample always fits.
  int32_t patches = 0;
  // Maximum number of likeliest tokens that one launch of a sampling kernel returns, for all rows
  // together. REQUIRES: tops >= min(kTopMax, vocabulary size).
  int32_t tops = 0;
};
// Maximum number of likeliest tokens that are returned for one row of logits; limited by the size
// of shared memory.
inline constexpr int32_t kTopMax = 4096;

// Returns the index in Sample::Args::sampled at which a step stores its token number `sample`.
// `which` alternates between 0 and 1 from step to step, so that a step does not overwrite the
// tokens of the previous step.
inline int32_t SampledIndex(int64_t sample, size_t which) {
  return static_cast<int32_t>(2 * sample + static_cast<int64_t>(which));
}
// Size in bytes of the device array of sampled tokens, for steps of `num_samples` samples.
inline size_t SampledBytes(int64_t num_samples) {
  return 2 * static_cast<size_t>(num_samples) * sizeof(int32_t);
}

// Identifies the samples of one call of Sample, to find their tokens in the device array of sampled
// tokens.
struct SampledRange {
  // Index of the first sample of this call of Sample, among all samples of the step.
  int64_t first = 0;
  size_t which = 0;  // see SampledIndex
};

// Input arrays of kernel Sample, as stored by SamplePlan::Pack.
struct PackedSamples {
  int32_t num_groups = 0;
  std::span<const std::byte> groups, entries, patches;
};

// Byte offsets of the arrays in the input memory and in the output memory of a sampling kernel.
class SampleLayout {
 public:
  explicit SampleLayout(const SampleCapacity& capacity);

  // Returns the maximum size in bytes of the inputs of one kernel launch. REQUIRES: the inputs are
  // aligned to 16 bytes.
  size_t max_input_bytes() const { return input_bytes(capacity_.patches); }
  size_t max_output_bytes() const { return output_bytes(true, capacity_.tops); }
  size_t original_bytes() const { return capacity_.patches * sizeof(float); }

  ScoreInputs ScoresAt(const std::byte* block) const;
  SampleOutputs OutputsAt(std::byte* block) const;

  const SampleCapacity& capacity() const { return capacity_; }
  // Returns the byte offset of the SampleGroup array from the start of the inputs.
  size_t groups() const { return groups_; }
  size_t entries() const { return entries_; }
  size_t patches() const { return patches_; }
  size_t input_bytes(int32_t num_patches) const {
    return patches_ + static_cast<size_t>(num_patches) * sizeof(LogitPatch);
  }
  // Returns the size in bytes of the kernel outputs: tokens and statuses. If `has_scores` is true,
  // also scores and `num_tops` likeliest tokens.
  size_t output_bytes(bool has_scores, int32_t num_tops) const {
    return has_scores ? tops_ + static_cast<size_t>(num_tops) * sizeof(TopLogit) : scores_;
  }

 private:
  SampleCapacity capacity_;
  // byte offsets from the start of the kernel inputs
  size_t groups_ = 0, entries_ = 0, patches_ = 0;
  size_t status_ = 0, scores_ = 0, tops_ = 0;  // byte offsets from the start of the kernel outputs
};

// Packs the inputs of one launch of a sampling kernel, and unpacks the outputs. A SamplePlan can be
// used for many launches.
class SamplePlan {
 public:
  // `inputs` is the input buffer of the kernel, which the plan fills. `outputs` is the output
  // buffer of the kernel, from which the plan reads the results. REQUIRES: `inputs` has
  // layout().max_input_bytes() bytes, and `outputs` has layout().max_output_bytes() bytes.
  SamplePlan(const SampleCapacity& capacity, std::byte* inputs, std::byte* outputs);

  const SampleLayout& layout() const { return layout_; }

  // Packs rows of `args`, from index `begin` on, for one kernel launch. Packs at least one row, and
  // as many rows as fit. Returns the index of the first row that was not packed. `sampled` states
  // where the kernel stores the sampled tokens.
  size_t Pack(const SampleArgs& args, size_t begin, const SampledRange& sampled);
  size_t Pack(const ScoreArgs& args, size_t begin);
  size_t input_bytes() const { return layout_.input_bytes(num_patches_); }
  // Returns the arrays that the latest call of Pack stored.
  PackedSamples samples() const;
  size_t output_bytes() const { return layout_.output_bytes(has_scores_, num_tops_); }

  // Stores the results of rows [begin, end) in the outputs of `args`. REQUIRES: Pack(args, begin)
  // returned `end`; the kernel's outputs are in host memory; all earlier rows have been unpacked.
  void Unpack(const SampleArgs& args, size_t begin, size_t end) const;
  void Unpack(const ScoreArgs& args, size_t begin, size_t end) const;

 private:
  struct RowEntry {
    int32_t logits_row = 0;
    SampleEntry entry;
  };

  void Begin();
  bool Fits(size_t num_rows, size_t num_patches, int32_t num_top) const;
  void CollectPatches(const StepSample& sample, int64_t vocab_size);
  SampleEntry EntryOf(const StepSample& sample, size_t which) const;
  void StoreSamples();
  void AppendLogprobs(const TokenScore& score, TokenId token, std::span<const TopLogit> tops,
                      Logprobs& logprobs) const;

  SampleLayout layout_;
  std::byte* inputs_;
  SampleOutputs outputs_;
  std::vector<LogitPatch> patches_;  // changed logits of the row that Pack is processing
  std::vector<TokenId> banned_;
  std::vector<RowEntry> samples_;  // tokens to sample, as packed by the latest call of Pack
  int32_t num_groups_ = 0, num_patches_ = 0, num_tops_ = 0;
  bool has_scores_ = false;
};

}  // namespace incipit::cuda
