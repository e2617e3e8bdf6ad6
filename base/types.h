// Types that all layers share: tokens, blocks, choices and sampling parameters.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace incipit {

using TokenId = int32_t;
// Separate types, so that a block cannot be passed as a request.
enum class RequestId : uint64_t {};
enum class BlockId : int32_t {};

inline constexpr BlockId kNoBlock{-1};

inline constexpr int32_t kBlockSizeMax = 256;  // maximum number of tokens in a block

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// The result of checking one row of logits.
enum class RowStatus : uint8_t { kOk, kNonFinite };

// A device copies the keys and values of the first `num_tokens` slots of `from` into `to`, in every
// layer, before the step's first layer runs.
struct BlockCopy {
  BlockId from{-1}, to{-1};
  int32_t num_tokens = 0;
};

struct TokenBias {
  TokenId token = -1;
  float bias = 0;
};

// The sampling parameters of one request. The parameters are checked when the request arrives:
// every value is finite and in its range.
struct SamplingParams {
  float temperature = 1;         // 0: always the likeliest token
  float top_p = 1;               // range (0, 1]
  int32_t top_k = 0;             // 0: all tokens
  float min_p = 0;               // range [0, 1]
  float repetition_penalty = 1;  // above 0; applies to tokens of the prompt and the output
  float presence_penalty = 0;    // range [-2, 2]; applies to tokens of the output
  float frequency_penalty = 0;   // range [-2, 2]; applies to tokens of the output
  uint64_t seed = 0;
  std::vector<TokenBias> logit_bias;  // sorted by token, no duplicates
  int32_t num_logprobs = -1;  // -1: none; 0: of the sampled token; k > 0: also of the k likeliest

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// Numbers of occurrences of a token in the prompt and in the output, for penalties.
struct TokenCount {
  TokenId token = -1;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;  // natural logarithm, from the logits before any sampling rule
};

// Log probabilities of several rows. For row i, `chosen[i]` is the row's own token and `rank[i]`
// its rank (1: the likeliest token). The likeliest tokens of row i are top[top_begin[i],
// top_begin[i + 1]), in descending order of probability, ties in ascending order of token id.
// `top_begin` has one element more than there are rows.
struct Logprobs {
  std::vector<TokenLogprob> chosen;
  std::vector<int32_t> rank;
  std::vector<int32_t> top_begin{0};
  std::vector<TokenLogprob> top;

  int32_t num_rows() const { return static_cast<int32_t>(chosen.size()); }
  void Clear() {
    chosen.clear();
    rank.clear();
    top_begin.assign(1, 0);
    top.clear();
  }
};

}  // namespace incipit
