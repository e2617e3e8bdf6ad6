#include "engine/batch.h"

#include <algorithm>
#include <cstddef>

namespace incipit {

Step BatchBuilder::Build(const StepPlan& plan, const PrefixTier* tier) {
  tokens_.clear();
  positions_.clear();
  blocks_.clear();
  samples_.clear();
  scores_.clear();
  writes_.clear();
  token_begin_.assign(1, 0);
  block_begin_.assign(1, 0);
  sample_begin_.assign(1, 0);
  score_begin_.assign(1, 0);
  if (!plan.writes.empty()) AddWrites(plan, *tier);
  for (const StepPlan::Item& item : plan.items) {
    if (item.num_tokens == 0) continue;  // the step only writes loaded blocks of the sequence
    AddScores(item);
    AddTokens(item);
    AddSamples(plan, item);
  }
  return {.tokens = tokens_,
          .positions = positions_,
          .token_begin = token_begin_,
          .block_begin = block_begin_,
          .blocks = blocks_,
          .writes = writes_,
          .copies = plan.copies,
          .sample_begin = sample_begin_,
          .samples = samples_,
          .score_begin = score_begin_,
          .scores = scores_};
}

void BatchBuilder::AddWrites(const StepPlan& plan, const PrefixTier& tier) {
  const size_t block_bytes = tier.shape().block_bytes;
  for (const StepPlan::Write& write : plan.writes) {
    const std::span<const std::byte> bytes = tier.bytes(write.ticket);
    const size_t begin = static_cast<size_t>(write.index) * block_bytes;
    writes_.push_back({.to = write.to, .data = bytes.subspan(begin, block_bytes).data()});
  }
}

void BatchBuilder::AddTokens(const StepPlan::Item& item) {
  const Sequence& sequence = *item.sequence;
  const SequenceTokens tokens = sequence.tokens();
  const bool is_fed = item.fed_sample >= 0;
  auto begin = static_cast<size_t>(item.first_token);
  const size_t end = begin + static_cast<size_t>(item.num_tokens - is_fed);
  while (begin < end) {
    const auto piece = tokens.From(begin);
    const size_t count = std::min(piece.size(), end - begin);
    tokens_.insert(tokens_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(count));
    begin += count;
  }
  if (is_fed) tokens_.push_back(-1 - item.fed_sample);
  for (int32_t i = 0; i < item.num_tokens; ++i) positions_.push_back(item.first_token + i);
  blocks_.insert(blocks_.end(), sequence.table.blocks.begin(), sequence.table.blocks.end());
  token_begin_.push_back(static_cast<int32_t>(tokens_.size()));
  block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
}

// Adds samples to the last token of `item`: one sample for each choice (output of the request) that
// continues after this token. If the previous step has not sampled this token yet,
// `sequence.counts` (number of occurrences of each output token) does not include the token.
void BatchBuilder::AddSamples(const StepPlan& plan, const StepPlan::Item& item) {
  const int32_t position = item.first_token + item.num_tokens;
  for (int32_t i = item.sample_begin; i < item.sample_begin + item.num_samples; ++i) {
    const Sequence& sequence = *plan.samples[i];
    const Request& request = sequence.request();
    StepSample sample = {.row = static_cast<int32_t>(tokens_.size()) - 1,
                         .params = &request.sampling,
                         .choice = sequence.choice,
                         .position = position,
                         .counts = sequence.counts,
                         .pending_sample = item.fed_sample};
    const int32_t num_output = position - request.num_prompt();
    if (!MayStop(num_output, request.output_tokens_min)) sample.banned = request.stop_tokens;
    samples_.push_back(sample);
  }
  sample_begin_.push_back(static_cast<int32_t>(samples_.size()));
}

// Adds an element to scores_ for each prompt token of `item` (tokens of one sequence in this step)
// whose log probability is needed. REQUIRES: the tokens of `item` have not been added to tokens_
// yet.
void BatchBuilder::AddScores(const StepPlan::Item& item) {
  const Request& request = item.sequence->request();
  for (int32_t i = 0; i < item.num_scores; ++i) {
    const int32_t position = item.score_begin + i;
    scores_.push_back(
        {.row = static_cast<int32_t>(tokens_.size()) + position - 1 - item.first_token,
         .target = request.prompt[static_cast<size_t>(position)],
         .num_top = request.prompt_logprobs});
  }
  score_begin_.push_back(static_cast<int32_t>(scores_.size()));
}

}  // namespace incipit
