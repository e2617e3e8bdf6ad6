// One pass of the model over a batch of sequences, as plain arrays. The engine builds a step once;
// its runner hands the step as it is to every backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace incipit {

// One token to sample from the logits of token row `row`. Several samples may share a row, one for
// each choice.
struct StepSample {
  int32_t row = 0;
  const SamplingParams* params = nullptr;
  int32_t choice = 0;                       // with the seed and the position, picks the random bits
  int64_t position = 0;                     // of the sampled token
  std::span<const TokenCount> counts = {};  // sorted by token; empty without penalties
  std::span<const TokenId> banned = {};     // never sampled (stop tokens before min_tokens)
};

// One prompt token whose log probability was asked for: `target`, from the logits of token row
// `row`.
struct StepScore {
  int32_t row = 0;
  TokenId target = -1;
  int32_t num_top = 0;  // likeliest tokens to return beside the target
};

// A token row is an index of `tokens`. Sequence s has
//   tokens [token_begin[s], token_begin[s + 1]), at consecutive positions;
//   blocks [block_begin[s], block_begin[s + 1]), of which block i holds positions
//     [i * block_size, (i + 1) * block_size);
//   samples [sample_begin[s], sample_begin[s + 1]) and scores [score_begin[s], score_begin[s + 1]),
//     both from its own token rows, rows ascending.
// Results have the same ranges. All arrays stay valid until the step has been waited for.
//
// A token below 0 is fed forward: -1 - i stands for the token of sample i of the previous step,
// which may still be in flight. The token is 0 if the logits of that sample were not finite; the
// caller must discard everything that is computed from it.
struct Step {
  std::span<const TokenId> tokens = {};        // [num_tokens]
  std::span<const int32_t> positions = {};     // [num_tokens]
  std::span<const int32_t> token_begin = {};   // [num_sequences + 1]
  std::span<const int32_t> block_begin = {};   // [num_sequences + 1]
  std::span<const BlockId> blocks = {};        // [block_begin[num_sequences]]
  std::span<const BlockCopy> copies = {};      // done before the first layer, in any order
  std::span<const int32_t> sample_begin = {};  // [num_sequences + 1]
  std::span<const StepSample> samples = {};    // [sample_begin[num_sequences]]
  std::span<const int32_t> score_begin = {};   // [num_sequences + 1]
  std::span<const StepScore> scores = {};      // [score_begin[num_sequences]]
};

}  // namespace incipit
