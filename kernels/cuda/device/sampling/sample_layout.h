// Memory layout of the inputs that the kernels Sample and Score read, and of the outputs that they
// write. The inputs are one contiguous range of memory, which is copied as a whole; so are the
// outputs. kernels/cuda/host/sample_plan.h writes the inputs and reads the outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda {

// A change of one token's logit in one row, by a penalty, a bias or a ban. A row has at most one
// LogitPatch for a token. The token is in the vocabulary.
struct alignas(16) LogitPatch {
  int32_t token = 0;
  uint32_t kinds = 0;     // sum of kPenalized, kBiased and kBanned, for the changes that apply
  int32_t in_output = 0;  // occurrences of the token in the output; used with kPenalized
  float bias = 0;         // number added to the logit; used with kBiased

  static constexpr uint32_t kPenalized = 1, kBiased = 2, kBanned = 4;
};

// The parameters of one sample. The host precomputes all values that depend on the sampling
// parameters alone (kernels/sampling.h).
struct alignas(16) SampleEntry {
  int32_t index = 0;  // index of this sample in the SampleOutputs
  int32_t greedy = 0;
  float inverse_temperature = 0;
  int32_t top_k = 0;         // 0: top_k keeps all tokens
  uint64_t top_p_share = 0;  // p of top_p in units of 2^-63; 2^63 keeps all tokens
  uint64_t min_p_mass = 0;
  uint64_t random_bits = 0;
  int32_t patch_begin = 0, patch_end = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  // Requested log probabilities. -1: none; 0: of the sampled token; k > 0: also of the k likeliest
  // tokens
  int32_t num_top = -1;
  int32_t top_begin = 0;
  int32_t unused[3] = {};
};

// All samples from one row of logits. While the kernel processes the group, no other thread block
// reads or changes the row.
struct alignas(16) SampleGroup {
  int32_t logits_row = 0;
  int32_t entry_begin = 0, entry_end = 0;
  int32_t unused = 0;
};

// A given token whose log probability the kernel Score computes.
struct alignas(16) ScoreEntry {
  int32_t logits_row = 0;
  int32_t target = 0;
  int32_t num_top = 0;
  int32_t top_begin = 0;
};

// The numbers from which the host computes the log probability of one token.
struct alignas(16) TokenScore {
  uint64_t row_mass = 0;  // sum of the integer probability weights of the row at temperature 1
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
  int32_t groups = 0;   // offset in bytes of SampleGroup[num_groups] from the SampleHeader
  int32_t entries = 0;  // offset in bytes of SampleEntry[] from the SampleHeader
  int32_t patches = 0;  // offset in bytes of LogitPatch[] from the SampleHeader
};
struct ScoreInputs {
  const int32_t* num_entries = nullptr;  // [1]: the number of entries
  const ScoreEntry* entries = nullptr;
};
struct SampleOutputs {
  int32_t* tokens = nullptr;     // [rows]: the sampled token, or -1 if the logits are not finite
  int32_t* status = nullptr;     // [rows]: a RowStatus as integer
  TokenScore* scores = nullptr;  // [rows]: set for rows with requested log probabilities
  // The likeliest tokens of each row, from index top_begin of the row on, the likeliest first
  TopLogit* tops = nullptr;
};

}  // namespace incipit::cuda
