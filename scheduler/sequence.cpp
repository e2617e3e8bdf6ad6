#include "scheduler/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Returns the number of occurrences of each token in the prompt, sorted by token id.
std::vector<TokenCount> CountPrompt(const Request& request) {
  std::vector<TokenId> sorted = request.prompt;
  std::ranges::sort(sorted);
  std::vector<TokenCount> counts;
  for (const TokenId token : sorted) {
    if (counts.empty() || counts.back().token != token) counts.push_back({.token = token});
    ++counts.back().in_prompt;
  }
  return counts;
}

// Sets the tokens and the block keys of `sequence`, and allocates the memory that the sequence will
// need. Computes the block keys only for the first choice of the request, and copies these keys for
// each later choice.
void FillSequence(const KvCacheManager& cache, Sequence& sequence) {
  const Request& request = sequence.request();
  const int32_t length_max = request.length_max();
  const int32_t num_full_max = length_max / cache.block_size();
  const int32_t num_shared = request.num_prompt() / cache.block_size() * cache.block_size();
  sequence.head = std::span(request.prompt).first(static_cast<size_t>(num_shared));
  sequence.tail.reserve(static_cast<size_t>(length_max - num_shared));
  sequence.tail.assign(request.prompt.begin() + num_shared, request.prompt.end());
  sequence.table.blocks.reserve(static_cast<size_t>(num_full_max + 1));
  // Tenants that share cached blocks also share the limit of retained blocks.
  sequence.table.tenant = request.cache_namespace.tenant ? request.tenant : 0;
  sequence.table.retention = request.retention;
  if (!cache.options().prefix_cache) return;
  sequence.table.hashes.reserve(static_cast<size_t>(num_full_max));
  const Sequence& first = sequence.group->sequences.front();
  if (&sequence == &first) {
    sequence.table.root = cache.hasher().Root(request.cache_namespace);
    cache.hasher().Extend(sequence.table.root, request.prompt, sequence.table.hashes);
  } else {
    sequence.table.root = first.table.root;
    sequence.table.hashes.assign(first.table.hashes.begin(), first.table.hashes.end());
  }
}

}  // namespace

void Sequence::Append(TokenId token) {
  tail.push_back(token);
  // The next token may lie in a cache line that no step has used yet.
  __builtin_prefetch(tail.data() + tail.size(), 1);
  if (!group->has_penalties) return;
  auto it = std::ranges::lower_bound(counts, token, {}, &TokenCount::token);
  if (it == counts.end() || it->token != token) it = counts.insert(it, {.token = token});
  ++it->in_output;
}

bool NeedsPendingToken(const Sequence& sequence) {
  const bool is_first_token = sequence.num_output() == 0;
  return sequence.end_at_commit || (is_first_token && FindUnborn(*sequence.group) != nullptr);
}

std::unique_ptr<SequenceGroup> MakeSequenceGroup(std::shared_ptr<const Request> request,
                                                 const KvCacheManager& cache) {
  INCIPIT_CHECK(!request->prompt.empty() && request->output_tokens_max > 0);
  INCIPIT_CHECK(request->num_choices >= 1 && request->num_choices <= kChoicesMax);
  INCIPIT_CHECK(
      cache.Fits(static_cast<int64_t>(request->prompt.size()) + request->output_tokens_max));
  auto group = std::make_unique<SequenceGroup>();
  group->sequences = std::vector<Sequence>(static_cast<size_t>(request->num_choices));
  group->id = request->id;
  group->stop_tokens = request->stop_tokens;
  group->num_unended = request->num_choices;
  group->num_prompt = request->num_prompt();
  group->length_max = request->length_max();
  group->output_tokens_min = request->output_tokens_min;
  group->num_to_score = request->prompt_logprobs >= 0 ? group->num_prompt - 1 : 0;
  group->has_penalties = request->sampling.has_penalties();
  group->reports_logprobs = request->sampling.num_logprobs >= 0;
  group->request = std::move(request);
  std::vector<TokenCount> counts;
  if (group->has_penalties) counts = CountPrompt(*group->request);
  for (int32_t choice = 0; choice < group->num_unended; ++choice) {
    Sequence& sequence = group->sequences[static_cast<size_t>(choice)];
    sequence.group = group.get();
    sequence.choice = choice;
    FillSequence(cache, sequence);
    if (counts.empty()) continue;  // the request has no penalties, so no tokens were counted
    sequence.counts.reserve(counts.size() + static_cast<size_t>(group->request->output_tokens_max));
    sequence.counts.assign(counts.begin(), counts.end());
  }
  return group;
}

}  // namespace incipit
