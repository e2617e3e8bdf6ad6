// Turns the rows of a SampleArgs or ScoreArgs into the arrays that the kernels of sample.h and
// score.h read, and what those leave into tokens, statuses and log probabilities.
//
// Each direction is one block of memory with places that depend on the capacity alone: the caller
// copies input_bytes() from the host block to the device, launches, and copies output_bytes() back.
// Rows that do not fit are left for another round. Samples may go to the device with other things
// instead: samples() says what of the block they are.
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
  int32_t rows = 0;     // in one round
  int32_t patches = 0;  // penalized, biased and banned tokens of all rows; a vocabulary at least
  int32_t tops = 0;     // likeliest tokens of all rows; kTopMax or a vocabulary at least
};
// The most log probabilities of one row: what a block holds in shared memory.
inline constexpr int32_t kTopMax = 4096;

// The arrays of some samples. Views.
struct PackedSamples {
  int32_t num_groups = 0;
  std::span<const std::byte> groups, entries, patches;
};

// Where the arrays of a sample or a score stand in their blocks.
class SampleLayout {
 public:
  explicit SampleLayout(const SampleCapacity& capacity);

  // Sizes of the blocks, each to be aligned to 16.
  size_t max_input_bytes() const { return input_bytes(capacity_.patches); }
  size_t max_output_bytes() const { return output_bytes(true, capacity_.tops); }
  size_t original_bytes() const { return capacity_.patches * sizeof(float); }

  ScoreInputs ScoresAt(const std::byte* block) const;
  SampleOutputs OutputsAt(std::byte* block) const;

  const SampleCapacity& capacity() const { return capacity_; }
  // Where in the block of inputs.
  size_t groups() const { return groups_; }
  size_t entries() const { return entries_; }
  size_t patches() const { return patches_; }
  size_t input_bytes(int32_t num_patches) const {
    return patches_ + static_cast<size_t>(num_patches) * sizeof(LogitPatch);
  }
  // Tokens and statuses; then scores; then the likeliest.
  size_t output_bytes(bool has_scores, int32_t num_tops) const {
    return has_scores ? tops_ + static_cast<size_t>(num_tops) * sizeof(TopLogit) : scores_;
  }

 private:
  SampleCapacity capacity_;
  size_t groups_ = 0, entries_ = 0, patches_ = 0;  // of the inputs
  size_t status_ = 0, scores_ = 0, tops_ = 0;      // of the outputs
};

// Working memory of one step after another; allocates nothing after the first full round.
class SamplePlan {
 public:
  // Writes into `inputs` and reads `outputs`: the host's blocks, of the sizes that the layout says.
  SamplePlan(const SampleCapacity& capacity, std::byte* inputs, std::byte* outputs);

  const SampleLayout& layout() const { return layout_; }

  // Packs rows from `begin` on, as many as fit (one at least), and returns the first that is left.
  size_t Pack(const SampleArgs& args, size_t begin);
  size_t Pack(const ScoreArgs& args, size_t begin);
  size_t input_bytes() const { return layout_.input_bytes(num_patches_); }
  // The block of samples that were packed last.
  PackedSamples samples() const;
  size_t output_bytes() const { return layout_.output_bytes(has_scores_, num_tops_); }

  // Once the outputs of the round that begins with row `begin` are there. Rounds in order.
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
  std::vector<LogitPatch> patches_;  // of the row at hand
  std::vector<TokenId> banned_;
  std::vector<RowEntry> samples_;  // of the round
  int32_t num_groups_ = 0, num_patches_ = 0, num_tops_ = 0;
  bool has_scores_ = false;
};

}  // namespace incipit::cuda
