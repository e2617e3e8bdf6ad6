// Declares types that all layers share: tokens, cache blocks, choices and sampling parameters.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace incipit {

using TokenId = int32_t;
// Request ids and block ids are separate types, so that the compiler rejects a block id in place of
// a request id.
enum class RequestId : uint64_t {};
enum class BlockId : int32_t {};

inline constexpr BlockId kNoBlock{-1};

inline constexpr int32_t kBlockSizeMax = 256;  // maximum number of tokens in a cache block

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// Status of one row of logits. kNonFinite: the row contains a NaN or +infinity, or all its values
// are -infinity.
enum class RowStatus : uint8_t { kOk, kNonFinite };

// A copy of the keys and values of the first `num_tokens` token slots of block `from` to block
// `to`, in every layer. The device makes the copy before the first layer of the step.
struct BlockCopy {
  BlockId from{-1}, to{-1};
  int32_t num_tokens = 0;
};

struct TokenBias {
  TokenId token = -1;
  float bias = 0;
};

// The sampling parameters of one request. The server checks the parameters when the request
// arrives, so every value is finite and in its range.
struct SamplingParams {
  float temperature = 1;  // 0: always the likeliest token is sampled
  float top_p = 1;        // range (0, 1]; 1: no limit
  int32_t top_k = 0;      // number of likeliest tokens that may be sampled; 0: all tokens
  float min_p = 0;        // range [0, 1]; 0: no limit
  // Above 0; 1: no penalty. Applies to tokens of the prompt and the output.
  float repetition_penalty = 1;
  float presence_penalty = 0;   // range [-2, 2]; applies to tokens of the output
  float frequency_penalty = 0;  // range [-2, 2]; applies to tokens of the output
  uint64_t seed = 0;
  std::vector<TokenBias> logit_bias;  // sorted by token id, without duplicates
  // Log probabilities to report. -1: none; 0: of the sampled token; k > 0: also of the k likeliest
  // tokens.
  int32_t num_logprobs = -1;

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// Numbers of occurrences of token `token` in the prompt and in the output. Penalties use these
// numbers.
struct TokenCount {
  TokenId token = -1;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  // Natural logarithm of the token's probability, from the logits before any sampling rule.
  float logprob = 0;
};

// Log probabilities of several rows of logits. For row i, chosen[i] is the sampled or given token,
// and rank[i] its rank (1: the likeliest token). The likeliest tokens of row i are
// top[top_begin[i], top_begin[i + 1]), in descending order of probability; equal probabilities are
// in ascending order of token id. `top_begin` has one element more than there are rows.
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
