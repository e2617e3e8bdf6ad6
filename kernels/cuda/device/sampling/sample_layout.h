// Memory layout of the inputs and outputs of the CUDA kernels Sample and Score. All inputs are in
// one memory range, all outputs in another. kernels/cuda/host/sample_plan.h writes the inputs and
// reads the outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda {

// All changes of the logit of one token before sampling: a penalty, a bias, a ban, or several of
// these.
struct alignas(16) LogitPatch {
  // Token whose logit changes. kPendingToken: the newest output token, which the previous step
  // sampled and the host does not know yet.
  int32_t token = 0;
  uint32_t kinds = 0;  // bit mask of kPenalized, kBiased and kBanned
  // number of occurrences of the token in the request's output; used only if `kinds` has kPenalized
  int32_t in_output = 0;
  float bias = 0;  // number that is added to the logit; used only if `kinds` has kBiased

  static constexpr uint32_t kPenalized = 1, kBiased = 2, kBanned = 4;
  static constexpr int32_t kPendingToken = -1;
};

// Parameters for sampling one token, computed by the host.
struct alignas(16) SampleEntry {
  int32_t index = 0;  // index of this token's results in the arrays of SampleOutputs
  int32_t greedy = 0;
  float inverse_temperature = 0;
  int32_t top_k = 0;  // sampling parameter top_k: number of likeliest tokens to keep; 0: all tokens
  uint64_t top_p_share = 0;  // sampling parameter top_p, multiplied by 2^63; 2^63: keep all tokens
  uint64_t min_p_mass = 0;
  uint64_t random_bits = 0;
  // Range of the elements of this sample in the array of LogitPatch elements (changes of logits),
  // in ascending order of token id. If `pending` is not -1, the range has one more element at its
  // end, for the token that the previous step sampled.
  int32_t patch_begin = 0, patch_end = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  // Number of likeliest tokens for which log probabilities are requested, besides the sampled
  // token. -1: no log probabilities, not even of the sampled token.
  int32_t num_top = -1;
  int32_t top_begin = 0;
  int32_t sampled = 0;  // index in Sample::Args::sampled at which the kernel stores the token
  // Index in Sample::Args::sampled of the newest output token, which the previous step sampled and
  // the host does not know yet. Penalties count this token. -1: the host knows all output tokens.
  int32_t pending = -1;
  int32_t unused = 0;
};

// All tokens to sample from one row of logits. One thread block samples the tokens one after the
// other, because sampling a token temporarily changes the row.
struct alignas(16) SampleGroup {
  int32_t logits_row = 0;
  int32_t entry_begin = 0, entry_end = 0;
  int32_t unused = 0;
};

// Input of kernel Score: a row of logits and a given token whose log probability is requested.
struct alignas(16) ScoreEntry {
  int32_t logits_row = 0;
  int32_t target = 0;
  int32_t num_top = 0;
  int32_t top_begin = 0;
};

// Results of a GPU kernel, from which the host computes the log probability of one token.
struct alignas(16) TokenScore {
  // sum of the probability weights (integers) of all tokens of the vocabulary, at temperature 1
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

// Header of the input data of one launch of kernel Sample. The data are one memory range, which
// begins with this header.
struct alignas(16) SampleHeader {
  int32_t num_groups = 0;
  int32_t groups = 0;   // byte offset of the array of SampleGroup from the start of this header
  int32_t entries = 0;  // byte offset of the array of SampleEntry from the start of this header
  int32_t patches = 0;  // byte offset of the array of LogitPatch from the start of this header
};
struct ScoreInputs {
  const int32_t* num_entries = nullptr;  // points to the number of elements in `entries`
  const ScoreEntry* entries = nullptr;
};
struct SampleOutputs {
  // element i: the sampled token id, or -1 if a logit is not finite
  int32_t* tokens = nullptr;
  // element i: a RowStatus, which states whether all logits of a row are finite
  int32_t* status = nullptr;
  TokenScore* scores = nullptr;  // numbers from which the host computes log probabilities
  // Lists of likeliest tokens, likeliest token first. The list of a SampleEntry or ScoreEntry
  // begins at tops[top_begin].
  TopLogit* tops = nullptr;
};

}  // namespace incipit::cuda
