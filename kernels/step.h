// Declares a step: one pass of the model over a batch of sequences, as plain arrays. The engine
// creates a step once, and its runner passes the step unchanged to the backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace incipit {

// One token to sample. The logits are those of token row `row` (an index into Step::tokens).
// Several samples, one for each choice of a request, may have the same row.
struct StepSample {
  int32_t row = 0;
  const SamplingParams* params = nullptr;
  // Index of the choice in its request. Seed, choice and position select the random bits.
  int32_t choice = 0;
  int64_t position = 0;  // position of the sampled token in its sequence
  // Counts of tokens in the prompt and the output, sorted by token; empty if there are no
  // penalties.
  std::span<const TokenCount> counts = {};
  // Tokens that must not be sampled: stop tokens, while the output is shorter than min_tokens.
  std::span<const TokenId> banned = {};
};

// A prompt token `target` whose log probability the request asked for. The log probability is
// computed from the logits of token row `row` (an index into Step::tokens).
struct StepScore {
  int32_t row = 0;
  TokenId target = -1;
  int32_t num_top = 0;  // number of likeliest tokens to report in addition to `target`
};

// The arrays of a step. A token row is an index into `tokens`. Sequence s has
//   tokens [token_begin[s], token_begin[s + 1]), at consecutive positions;
//   blocks [block_begin[s], block_begin[s + 1]), where block i of the sequence holds the positions
//     [i * block_size, (i + 1) * block_size);
//   samples [sample_begin[s], sample_begin[s + 1]) and scores [score_begin[s], score_begin[s + 1]),
//     both in ascending order of their token rows, which belong to sequence s.
// The results of the step for sequence s have the same ranges. All arrays must stay valid until the
// step has finished.
//
// A token -1 - i is a placeholder for the token of sample i of the previous step, which may still
// be in flight. If the logits of sample i were not finite, the placeholder becomes token 0. In this
// case, the caller must discard all results that depend on the placeholder.
struct Step {
  std::span<const TokenId> tokens = {};       // size: num_tokens
  std::span<const int32_t> positions = {};    // size: num_tokens
  std::span<const int32_t> token_begin = {};  // size: num_sequences + 1
  std::span<const int32_t> block_begin = {};  // size: num_sequences + 1
  std::span<const BlockId> blocks = {};       // size: block_begin[num_sequences]
  // Copies of cache blocks that the device makes before the first layer, in any order.
  std::span<const BlockCopy> copies = {};
  std::span<const int32_t> sample_begin = {};  // size: num_sequences + 1
  std::span<const StepSample> samples = {};    // size: sample_begin[num_sequences]
  std::span<const int32_t> score_begin = {};   // size: num_sequences + 1
  std::span<const StepScore> scores = {};      // size: score_begin[num_sequences]
};

}  // namespace incipit
