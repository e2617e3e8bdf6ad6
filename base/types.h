// Declares basic types that all layers of the program use: tokens, cache blocks and sampling
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace incipit {

using TokenId = int32_t;
// RequestId and BlockId are separate types, so that the compiler rejects a block id where a request
// id is expected.
enum class RequestId : uint64_t {};
enum class BlockId : int32_t {};

inline constexpr BlockId kNoBlock{-1};

// Maximum number of tokens in a block of the KV cache.
inline constexpr int32_t kBlockSizeMax = 256;

// kTooLate: the request was refused while it waited, because its first token could not be computed
// before its deadline.
enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kTooLate, kError };

// Result of the check of one row of logits. kNonFinite: the row contains a NaN or +infinity, or all
// values of the row are -infinity.
enum class RowStatus : uint8_t { kOk, kNonFinite };

// A copy from one block of the KV cache to another: the keys and values of the first `num_tokens`
// tokens of block `from` are copied to block `to`, in every layer. The device makes the copy before
// it computes the first layer.
struct BlockCopy {
  BlockId from{-1}, to{-1};
  int32_t num_tokens = 0;
};

// A write of one whole block of the KV cache: the keys and values of block `to`, in every layer,
// are set to the bytes at `data`. Backend::ReadBlocks of a pool with the same shape has read these
// bytes. The device writes the block before it computes the first layer.
struct BlockWrite {
  BlockId to{-1};
  const std::byte* data = nullptr;
};

struct TokenBias {
  TokenId token = -1;
  float bias = 0;
};

// The sampling parameters of one request. The server checks the parameters when the request
// arrives. Therefore every value is finite and in its allowed range.
struct SamplingParams {
  // Divisor of the logits. 0: the token with the highest probability is always sampled.
  float temperature = 1;
  // Sampling chooses among the likeliest tokens: the smallest set of tokens with a total
  // probability of at least `top_p`. Range (0, 1]; 1: no limit.
  float top_p = 1;
  int32_t top_k = 0;  // Sampling chooses among the `top_k` likeliest tokens. 0: no limit.
  // Sampling chooses among the tokens whose probability is at least `min_p` times the highest
  // probability. Range [0, 1]; 0: no limit.
  float min_p = 0;
  // Penalty for tokens that occur in the prompt or in the output. Must be above 0; 1: no penalty.
  float repetition_penalty = 1;
  // Penalty for each token that occurs in the output. Range [-2, 2]; 0: no penalty.
  float presence_penalty = 0;
  // Penalty for each occurrence of a token in the output. Range [-2, 2]; 0: no penalty.
  float frequency_penalty = 0;
  uint64_t seed = 0;
  // Numbers that are added to the logits of tokens. The list is sorted by token id, and contains
  // each token id at most once.
  std::vector<TokenBias> logit_bias;
  // Number of likeliest tokens whose log probabilities are reported with each sampled token. 0:
  // only the sampled token is reported. -1: no log probabilities are reported.
  int32_t num_logprobs = -1;

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// Number of occurrences of one token in the prompt (`in_prompt`) and in the output (`in_output`),
// for repetition penalties.
struct TokenCount {
  TokenId token = -1;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  // Natural logarithm of the token's probability. The probability is computed from the unmodified
  // logits, before penalties, bias and temperature.
  float logprob = 0;
};

// Log probabilities of tokens, computed from several rows of logits.
struct Logprobs {
  // chosen[i] is the token that was sampled from row i of the logits. If row i belongs to a token
  // of the prompt, chosen[i] is the next token of the prompt.
  std::vector<TokenLogprob> chosen;
  // rank[i] is the position, from 1, of the token chosen[i] in the vocabulary sorted by descending
  // probability. The likeliest token has rank 1.
  std::vector<int32_t> rank;
  // The likeliest tokens of row i are the elements [top_begin[i], top_begin[i + 1]) of `top`. The
  // tokens of a row are sorted by descending probability, then by ascending token id.
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
