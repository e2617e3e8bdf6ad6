// Converts sampling and scoring requests (SampleArgs, ScoreArgs) into the input arrays of the
// kernels Sample and Score. Converts the outputs of the kernels into tokens, statuses and log
// probabilities.
//
// A round is one launch of a kernel. In each round, the caller copies input_bytes() bytes to the
// device, launches the kernel, and copies output_bytes() bytes back. A step with many rows needs
// several rounds.
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
  int32_t rows = 0;  // maximum number of rows in a round (one launch of a sampling kernel)
  // Maximum number of penalized, biased and banned tokens of all rows of a round (one launch of a
  // sampling kernel). REQUIRES: at least the vocabulary size.
  int32_t patches = 0;
  // Maximum number of likeliest tokens of all rows of a round (one launch of a sampling kernel).
  // REQUIRES: at least the smaller of kTopMax and the vocabulary size.
  int32_t tops = 0;
};
// Maximum number of log probabilities of one row. The limit follows from the size of a thread
// block's shared memory.
inline constexpr int32_t kTopMax = 4096;

// The arrays that SamplePlan::Pack has stored for kernel Sample.
struct PackedSamples {
  int32_t num_groups = 0;
  std::span<const std::byte> groups, entries, patches;
};

// Offsets of the arrays in two memory ranges: one range for the inputs of a sampling kernel, one
// for the outputs. The offsets depend only on the capacity.
class SampleLayout {
 public:
  explicit SampleLayout(const SampleCapacity& capacity);

  // Returns the maximum size in bytes of the inputs of a round (one launch of a sampling kernel).
  // The memory range of the inputs must be aligned to 16 bytes.
  size_t max_input_bytes() const { return input_bytes(capacity_.patches); }
  size_t max_output_bytes() const { return output_bytes(true, capacity_.tops); }
  size_t original_bytes() const { return capacity_.patches * sizeof(float); }

  ScoreInputs ScoresAt(const std::byte* block) const;
  SampleOutputs OutputsAt(std::byte* block) const;

  const SampleCapacity& capacity() const { return capacity_; }
  // Returns the offset in bytes of SampleGroup[] in the inputs.
  size_t groups() const { return groups_; }
  size_t entries() const { return entries_; }
  size_t patches() const { return patches_; }
  size_t input_bytes(int32_t num_patches) const {
    return patches_ + static_cast<size_t>(num_patches) * sizeof(LogitPatch);
  }
  // Returns the size in bytes of the outputs. Without scores, the outputs are tokens and statuses;
  // with `has_scores`, also scores and `num_tops` likeliest tokens.
  size_t output_bytes(bool has_scores, int32_t num_tops) const {
    return has_scores ? tops_ + static_cast<size_t>(num_tops) * sizeof(TopLogit) : scores_;
  }

 private:
  SampleCapacity capacity_;
  size_t groups_ = 0, entries_ = 0, patches_ = 0;  // offsets in bytes from the start of the inputs
  size_t status_ = 0, scores_ = 0, tops_ = 0;      // offsets in bytes from the start of the outputs
};

// Packs the rows of one round (one launch of a sampling kernel) and unpacks the outputs. A
// SamplePlan can be used for many rounds.
class SamplePlan {
 public:
  // Creates a plan that writes `inputs` and reads `outputs` in host memory. REQUIRES: `inputs` has
  // layout().max_input_bytes() bytes, `outputs` has layout().max_output_bytes() bytes.
  SamplePlan(const SampleCapacity& capacity, std::byte* inputs, std::byte* outputs);

  const SampleLayout& layout() const { return layout_; }

  // Packs as many rows, from row `begin` on, as fit in one round (one launch of a sampling kernel);
  // packs at least one row. Returns the index of the first row that was not packed.
  size_t Pack(const SampleArgs& args, size_t begin);
  size_t Pack(const ScoreArgs& args, size_t begin);
  size_t input_bytes() const { return layout_.input_bytes(num_patches_); }
  // Returns the arrays of the samples that the latest Pack stored, for callers that copy the
  // samples to the device together with other data.
  PackedSamples samples() const;
  size_t output_bytes() const { return layout_.output_bytes(has_scores_, num_tops_); }

  // Stores the results of rows [begin, end) in the outputs of `args`. REQUIRES: Pack(args, begin)
  // has packed these rows; the kernel's outputs have been copied to the host; all earlier rows have
  // been unpacked.
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
  SampleEntry EntryOf(const StepSample& sample) const;
  void StoreSamples();
  void AppendLogprobs(const TokenScore& score, TokenId token, std::span<const TopLogit> tops,
                      Logprobs& logprobs) const;

  SampleLayout layout_;
  std::byte* inputs_;
  SampleOutputs outputs_;
  std::vector<LogitPatch> patches_;  // changes of logits of the row that Pack is packing
  std::vector<TokenId> banned_;
  std::vector<RowEntry> samples_;  // samples that the current Pack call has packed
  int32_t num_groups_ = 0, num_patches_ = 0, num_tops_ = 0;
  bool has_scores_ = false;
};

}  // namespace incipit::cuda
