// Memory layout of the plan that a sampling kernel reads and of the results that it writes. Inputs
// and outputs are each one contiguous range of memory that is copied at once.
// kernels/cuda/host/sample_plan.h writes the inputs and reads the outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda {

// A token whose logit is changed in one row. A token occurs at most once for a row and is in the
// vocabulary.
struct alignas(16) LogitPatch {
  int32_t token = 0;
  uint32_t kinds = 0;     // sum of the constants below: the changes that apply
  int32_t in_output = 0;  // kPenalized
  float bias = 0;         // used with kBiased

  static constexpr uint32_t kPenalized = 1, kBiased = 2, kBanned = 4;
};

// The parameters of one sample. The host precomputes all values that depend on the parameters alone
// (kernels/sampling.h).
struct alignas(16) SampleEntry {
  int32_t index = 0;  // index of this sample in the outputs
  int32_t greedy = 0;
  float inverse_temperature = 0;
  int32_t top_k = 0;         // 0: all tokens
  uint64_t top_p_share = 0;  // in units of 2^-63; 2^63 is the whole mass
  uint64_t min_p_mass = 0;
  uint64_t random_bits = 0;
  int32_t patch_begin = 0, patch_end = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  int32_t num_top = -1;  // log probabilities: -1: none; 0: the sampled token; k: also k likeliest
  int32_t top_begin = 0;
  int32_t unused[3] = {};
};

// All samples from one row of logits. Nothing else reads or changes the row meanwhile.
struct alignas(16) SampleGroup {
  int32_t logits_row = 0;
  int32_t entry_begin = 0, entry_end = 0;
  int32_t unused = 0;
};

// A known token whose log probability is requested.
struct alignas(16) ScoreEntry {
  int32_t logits_row = 0;
  int32_t target = 0;
  int32_t num_top = 0;
  int32_t top_begin = 0;
};

// The numbers from which the host computes a log probability.
struct alignas(16) TokenScore {
  uint64_t row_mass = 0;  // mass of the row at temperature 1
  float row_max = 0;
  float logit = 0;
  int32_t rank = 0;
  int32_t unused[3] = {};
};
struct alignas(8) TopLogit {
  int32_t token = 0;
  float logit = 0;
};

// Header of all samples of a launch. The offsets are in bytes from the header. A captured graph
// contains only the header's address, so one graph serves any samples.
struct alignas(16) SampleHeader {
  int32_t num_groups = 0;
  int32_t groups = 0;   // offset of SampleGroup[num_groups]
  int32_t entries = 0;  // offset of SampleEntry[]
  int32_t patches = 0;  // offset of LogitPatch[]
};
struct ScoreInputs {
  const int32_t* num_entries = nullptr;  // [1]
  const ScoreEntry* entries = nullptr;
};
struct SampleOutputs {
  int32_t* tokens = nullptr;     // [rows]: -1 if the logits are not finite
  int32_t* status = nullptr;     // [rows]: a RowStatus
  TokenScore* scores = nullptr;  // [rows]: set for rows with log probabilities
  TopLogit* tops = nullptr;      // each row's entries begin at its top_begin, the likeliest first
};

}  // namespace incipit::cuda
