// What a sampling kernel reads of the host's plan and what it leaves for the host, as plain arrays:
// each side is one block of memory, copied at once. kernels/cuda/host/sample_plan.h fills the one
// and reads the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda {

// A token whose logit is changed in one row; each token at most once in a row, all in the
// vocabulary.
struct alignas(16) LogitPatch {
  int32_t token = 0;
  uint32_t kinds = 0;     // what of this applies: the sum of the constants below
  int32_t in_output = 0;  // kPenalized
  float bias = 0;         // kBiased

  static constexpr uint32_t kPenalized = 1, kBiased = 2, kBanned = 4;
};

// One sample. What depends on the parameters alone is worked out on the host (kernels/sampling.h).
struct alignas(16) SampleEntry {
  int32_t index = 0;  // of this sample in the outputs
  int32_t greedy = 0;
  float inverse_temperature = 0;
  int32_t top_k = 0;         // 0: all
  uint64_t top_p_share = 0;  // of 2^63, which is all
  uint64_t min_p_mass = 0;
  uint64_t random_bits = 0;
  int32_t patch_begin = 0, patch_end = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  int32_t num_top = -1;  // log probabilities: -1 none, 0 the sampled token's, k and the k likeliest
  int32_t top_begin = 0;
  int32_t unused[3] = {};
};

// Samples from one row of logits, which nothing else reads or changes meanwhile.
struct alignas(16) SampleGroup {
  int32_t logits_row = 0;
  int32_t entry_begin = 0, entry_end = 0;
  int32_t unused = 0;
};

// A known token whose log probability is asked for.
struct alignas(16) ScoreEntry {
  int32_t logits_row = 0;
  int32_t target = 0;
  int32_t num_top = 0;
  int32_t top_begin = 0;
};

// What a log probability is made of: the host divides and takes logarithms.
struct alignas(16) TokenScore {
  uint64_t row_mass = 0;  // at temperature 1
  float row_max = 0;
  float logit = 0;
  int32_t rank = 0;
  int32_t unused[3] = {};
};
struct alignas(8) TopLogit {
  int32_t token = 0;
  float logit = 0;
};

// All samples of a launch: how many groups, and where the arrays stand, in bytes from this header
// on. A captured graph holds only the header's address, so it serves any samples.
struct alignas(16) SampleHeader {
  int32_t num_groups = 0;
  int32_t groups = 0;   // of SampleGroup[num_groups]
  int32_t entries = 0;  // of SampleEntry[]
  int32_t patches = 0;  // of LogitPatch[]
};
struct ScoreInputs {
  const int32_t* num_entries = nullptr;  // [1]
  const ScoreEntry* entries = nullptr;
};
struct SampleOutputs {
  int32_t* tokens = nullptr;     // [rows]: -1 where the logits are not finite
  int32_t* status = nullptr;     // [rows]: a RowStatus
  TokenScore* scores = nullptr;  // [rows]: of rows with log probabilities
  TopLogit* tops = nullptr;      // a row's own from top_begin on, best first
};

}  // namespace incipit::cuda
