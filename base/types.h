// The vocabulary that layers share: what a token, a block, a choice and a way of sampling are.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace incipit {

using TokenId = int32_t;
enum class RequestId : uint64_t {};  // distinct types: a block is never a request
enum class BlockId : int32_t {};

inline constexpr BlockId kNoBlock{-1};

inline constexpr int32_t kBlockSizeMax = 256;  // maximum number of tokens in a block

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// What became of one row of logits.
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

// How one request draws its tokens. Checked at the edge: every value is finite and in range.
struct SamplingParams {
  float temperature = 1;         // 0: greedy
  float top_p = 1;               // (0, 1]
  int32_t top_k = 0;             // 0: all
  float min_p = 0;               // [0, 1)
  float repetition_penalty = 1;  // > 0; over prompt and answer
  float presence_penalty = 0;    // [-2, 2]; over the answer
  float frequency_penalty = 0;   // [-2, 2]; over the answer
  uint64_t seed = 0;
  std::vector<TokenBias> logit_bias;  // sorted by token, no duplicates
  int32_t num_logprobs = -1;          // -1: none; 0: the sampled token's; k: and the k likeliest

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// How often one token stands in a sequence; what penalties are computed from.
struct TokenCount {
  TokenId token = -1;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;  // natural, of the model's own distribution (before any sampling rule)
};

// Log probabilities of several rows: row i has its own token's in `chosen[i]` with its rank (1: the
// likeliest) in `rank[i]`, and its likeliest in top[top_begin[i] .. top_begin[i + 1]), best first.
// Ties stand in order of token id. `top_begin` has one element more than there are rows.
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
