// Memory layout of the inputs and outputs of the kernels Sample and Score. One copy between host
// and device transfers all inputs, another all outputs. kernels/cuda/host/sample_plan.h writes the
// inputs and reads the outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda {

// A change of one logit of a row, by a penalty, a bias or a ban. A row has at most one LogitPatch
// for each token id.
struct alignas(16) LogitPatch {
  int32_t token = 0;
  uint32_t kinds = 0;  // any of the bits kPenalized, kBiased and kBanned
  // how often the token occurs in the request's output; used with kPenalized
  int32_t in_output = 0;
  float bias = 0;  // number added to the logit; used with kBiased

  static constexpr uint32_t kPenalized = 1, kBiased = 2, kBanned = 4;
};

// The parameters of one sample (one token to sample), computed by the host.
struct alignas(16) SampleEntry {
  int32_t index = 0;  // index of this sample in the arrays of SampleOutputs
  int32_t greedy = 0;
  float inverse_temperature = 0;
  int32_t top_k = 0;         // number of tokens that top_k keeps; 0: all tokens
  uint64_t top_p_share = 0;  // p of top_p in units of 2^-63; 2^63 keeps all tokens
  uint64_t min_p_mass = 0;
  uint64_t random_bits = 0;
  int32_t patch_begin = 0, patch_end = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  // Number of requested log probabilities. -1: none; 0: only for the sampled token; k > 0: also for
  // the k likeliest tokens.
  int32_t num_top = -1;
  int32_t top_begin = 0;
  int32_t unused[3] = {};
};

// All samples that use the same row of logits. One thread block processes the samples one after the
// other, because penalties, biases and bans of a sample change the row for a time.
struct alignas(16) SampleGroup {
  int32_t logits_row = 0;
  int32_t entry_begin = 0, entry_end = 0;
  int32_t unused = 0;
};

// A token of the prompt (not sampled) whose log probability kernel Score computes.
struct alignas(16) ScoreEntry {
  int32_t logits_row = 0;
  int32_t target = 0;
  int32_t num_top = 0;
  int32_t top_begin = 0;
};

// The numbers from which the host computes the log probability of a token.
struct alignas(16) TokenScore {
  // sum of the integer probability weights of all tokens of the row, at temperature 1
  uint64_t row_mass = 0;
  float row_max = 0;
  float logit = 0;
  int32_t rank = 0;
  int32_t unused[3] = {};
};
struct alignas(8) TopLogit {
  int32_t token = 0;
  float logit = 0;
};

// Header of the memory range with all samples of a launch. A recorded CUDA graph contains only the
// address of the header, so each replay may have other samples.
struct alignas(16) SampleHeader {
  int32_t num_groups = 0;
  int32_t groups = 0;   // offset in bytes of SampleGroup[num_groups] from the SampleHeader
  int32_t entries = 0;  // offset in bytes of SampleEntry[] from the SampleHeader
  int32_t patches = 0;  // offset in bytes of LogitPatch[] from the SampleHeader
};
struct ScoreInputs {
  const int32_t* num_entries = nullptr;  // address of the number of entries
  const ScoreEntry* entries = nullptr;
};
struct SampleOutputs {
  int32_t* tokens = nullptr;  // the sampled token of each sample; -1 if the logits are not finite
  int32_t* status = nullptr;  // RowStatus of each sample or ScoreEntry, as an integer
  TokenScore* scores = nullptr;  // numbers for the requested log probabilities
  // The likeliest tokens of all samples. The tokens of a sample begin at index
  // SampleEntry::top_begin, the likeliest token first.
  TopLogit* tops = nullptr;
};

}  // namespace incipit::cuda
