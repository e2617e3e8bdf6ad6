// Declares a step: one computation of the model for a batch of sequences. The engine creates the
// arrays of a step once, and the runner passes the arrays unchanged to the backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace incipit {

// A token to sample in a step, from the logits that the model computes for the token
// Step::tokens[row]. Several samples, one for each choice of a request, may have the same row.
struct StepSample {
  int32_t row = 0;
  const SamplingParams* params = nullptr;
  // Index of the choice (one of several outputs) in its request. Seed, choice and position
  // determine the random bits.
  int32_t choice = 0;
  int64_t position = 0;  // position of the sampled token in its sequence
  // Tokens of the prompt and the output, with their numbers of occurrences, in ascending order of
  // token id. Empty if the request has no penalties. A token that the host does not know yet
  // (`pending_sample`) is not counted.
  std::span<const TokenCount> counts = {};
  // The pending token is the token at `position` - 1, if the previous step samples this token and
  // the host does not know it yet. This field is the index of its sample among the samples of the
  // previous step. -1: the host knows all tokens of the sequence. Penalties count the pending token
  // as one more output token, unless its logits are not finite.
  int32_t pending_sample = -1;
  // Tokens that must not be sampled: the stop tokens if the output is shorter than min_tokens,
  // otherwise none.
  std::span<const TokenId> banned = {};
};

// A prompt token `target` whose log probability the request asked for. The log probability is
// computed from the logits of token row `row` (an index into Step::tokens).
struct StepScore {
  int32_t row = 0;
  TokenId target = -1;
  int32_t num_top = 0;  // number of likeliest tokens to return in addition to `target`
};

// The arrays of a step (a batch). Sequence s of the step has:
// - the tokens [token_begin[s], token_begin[s + 1]), at consecutive positions;
// - the cache blocks [block_begin[s], block_begin[s + 1]), each with block_size positions;
// - the samples [sample_begin[s], sample_begin[s + 1]), in ascending order of `row`;
// - the scores [score_begin[s], score_begin[s + 1]), in ascending order of `row`.
// All arrays must stay valid until the step has finished. Only StepSample::counts may change
// earlier, after ModelRunner::Launch has returned.
//
// The token -1 - i is a placeholder for the token that the previous step samples at index i. If the
// logits for that token are not finite, the step uses token 0 instead. The caller must then discard
// all results that depend on the placeholder.
struct Step {
  std::span<const TokenId> tokens = {};     // tokens of all sequences, one sequence after the other
  std::span<const int32_t> positions = {};  // element i: position of tokens[i] in its sequence
  // For each sequence, the index of its first token in `tokens`. The last element is the size of
  // `tokens`.
  std::span<const int32_t> token_begin = {};
  // For each sequence, the index of its first cache block in `blocks`. The last element is the size
  // of `blocks`.
  std::span<const int32_t> block_begin = {};
  // Cache blocks of all sequences, one sequence after the other.
  std::span<const BlockId> blocks = {};
  // Cache blocks whose keys and values the device sets to given bytes before it makes the copies.
  // No two writes have the same block. The bytes must stay valid until the step has finished.
  std::span<const BlockWrite> writes = {};
  // Pairs of cache blocks: the device copies keys and values from one block to another after the
  // writes and before the first layer. The copies may be made in any order. A copy may read a block
  // that `writes` sets. No copy may change a block that `writes` sets.
  std::span<const BlockCopy> copies = {};
  // For each sequence, the index of its first sample in `samples`. The last element is the size of
  // `samples`.
  std::span<const int32_t> sample_begin = {};
  // Tokens to sample for all sequences, one sequence after the other.
  std::span<const StepSample> samples = {};
  // For each sequence, the index of its first score in `scores`. The last element is the size of
  // `scores`.
  std::span<const int32_t> score_begin = {};
  // Prompt tokens for which log probabilities are requested, of all sequences.
  std::span<const StepScore> scores = {};
};

}  // namespace incipit
