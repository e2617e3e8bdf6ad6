#include "scheduler/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// How often each token stands in the prompt, sorted by token.
void CountPrompt(Sequence& sequence, int32_t length_max) {
  sequence.counts.reserve(static_cast<size_t>(length_max));
  std::vector<TokenId> sorted = sequence.tokens;
  std::ranges::sort(sorted);
  for (const TokenId token : sorted) {
    if (sequence.counts.empty() || sequence.counts.back().token != token) {
      sequence.counts.push_back({.token = token});
    }
    ++sequence.counts.back().in_prompt;
  }
}

// The first choice computes the prompt; the others share its blocks, and have the same start.
void FillSequence(const Request& request, const KvCacheManager& cache, Sequence& sequence) {
  const std::vector<TokenId>& prompt = request.prompt;
  const int32_t length_max = sequence.group->length_max;
  const int32_t num_full_max = length_max / cache.block_size();
  sequence.tokens.reserve(static_cast<size_t>(length_max));
  sequence.tokens.assign(prompt.begin(), prompt.end());
  sequence.table.blocks.reserve(static_cast<size_t>(num_full_max + 1));
  sequence.table.tenant = request.tenant;
  sequence.table.retention = request.retention;
  if (sequence.group->sampling.has_penalties()) CountPrompt(sequence, length_max);
  if (!cache.options().prefix_cache) return;
  sequence.table.hashes.reserve(static_cast<size_t>(num_full_max));
  const Sequence& first = sequence.group->sequences.front();
  if (&sequence == &first) {
    sequence.table.root = cache.hasher().Root(request.cache_namespace);
    cache.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
  } else {
    sequence.table.root = first.table.root;
    sequence.table.hashes.assign(first.table.hashes.begin(), first.table.hashes.end());
  }
}

}  // namespace

void Sequence::Append(TokenId token) {
  tokens.push_back(token);
  if (!group->sampling.has_penalties()) return;
  auto it = std::ranges::lower_bound(counts, token, {}, &TokenCount::token);
  if (it == counts.end() || it->token != token) it = counts.insert(it, {.token = token});
  ++it->in_answer;
}

bool NeedsPendingToken(const Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  return group.sampling.has_penalties() || FindUnborn(group) != nullptr;
}

std::unique_ptr<SequenceGroup> MakeSequenceGroup(Request request, const KvCacheManager& cache) {
  INCIPIT_CHECK(!request.prompt.empty() && request.answer_tokens_max > 0);
  INCIPIT_CHECK(request.num_choices >= 1 && request.num_choices <= kChoicesMax);
  const int64_t length_max =
      static_cast<int64_t>(request.prompt.size()) + request.answer_tokens_max;
  INCIPIT_CHECK(cache.Fits(length_max));
  auto group = std::make_unique<SequenceGroup>();
  group->id = request.id;
  group->num_prompt = static_cast<int32_t>(request.prompt.size());
  group->length_max = static_cast<int32_t>(length_max);
  group->answer_tokens_min = request.answer_tokens_min;
  group->stop_tokens = std::move(request.stop_tokens);
  group->sampling = std::move(request.sampling);
  group->prompt_logprobs = request.prompt_logprobs;
  group->read_cache = request.read_cache;
  group->priority = request.priority;
  group->arrival = request.arrival;
  group->deadline = request.deadline;
  group->sequences = std::vector<Sequence>(static_cast<size_t>(request.num_choices));
  group->num_unended = request.num_choices;
  for (int32_t choice = 0; choice < request.num_choices; ++choice) {
    Sequence& sequence = group->sequences[static_cast<size_t>(choice)];
    sequence.group = group.get();
    sequence.choice = choice;
    FillSequence(request, cache, sequence);
  }
  return group;
}

}  // namespace incipit
