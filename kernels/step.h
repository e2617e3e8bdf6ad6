// One pass of the model over a batch of sequences, as plain arrays. The engine builds a step once,
// and its runner passes the step unchanged to the backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace incipit {

// One token to sample from the logits of token row `row`. Several samples may share a row, one for
// each choice of a request.
struct StepSample {
  int32_t row = 0;
  const SamplingParams* params = nullptr;
  // Index of the choice. The seed, the choice and the position select the random bits.
  int32_t choice = 0;
  int64_t position = 0;                     // position of the sampled token in its sequence
  std::span<const TokenCount> counts = {};  // sorted by token; empty if there are no penalties
  // Tokens that must not be sampled (stop tokens before min_tokens).
  std::span<const TokenId> banned = {};
};

// A prompt token `target` whose log probability the request asked for. The log probability is
// computed from the logits of token row `row`.
struct StepScore {
  int32_t row = 0;
  TokenId target = -1;
  int32_t num_top = 0;  // number of likeliest tokens to return beside the target
};

// The arrays of a step. A token row is an index into `tokens`. Sequence s has
//   tokens [token_begin[s], token_begin[s + 1]), at consecutive positions;
//   blocks [block_begin[s], block_begin[s + 1]), where block i of the sequence holds positions
//     [i * block_size, (i + 1) * block_size);
//   samples [sample_begin[s], sample_begin[s + 1]) and scores [score_begin[s], score_begin[s + 1]),
//     both in ascending order of their token rows, which belong to sequence s.
// The results of a step have the same ranges. All arrays must stay valid until the step has
// finished.
//
// A token below 0 is a placeholder: -1 - i stands for the token of sample i of the previous step,
// which may still be in flight. If the logits of that sample were not finite, the placeholder
// stands for token 0. In that case the caller must discard everything that is computed from the
// placeholder.
struct Step {
  std::span<const TokenId> tokens = {};       // size: num_tokens
  std::span<const int32_t> positions = {};    // size: num_tokens
  std::span<const int32_t> token_begin = {};  // size: num_sequences + 1
  std::span<const int32_t> block_begin = {};  // size: num_sequences + 1
  std::span<const BlockId> blocks = {};       // size: block_begin[num_sequences]
  std::span<const BlockCopy> copies = {};     // copies to make before the first layer, in any order
  std::span<const int32_t> sample_begin = {};  // size: num_sequences + 1
  std::span<const StepSample> samples = {};    // size: sample_begin[num_sequences]
  std::span<const int32_t> score_begin = {};   // size: num_sequences + 1
  std::span<const StepScore> scores = {};      // size: score_begin[num_sequences]
};

}  // namespace incipit
