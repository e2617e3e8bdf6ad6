#include "cli/bench/bench_requests.h"

#include <algorithm>
#include <utility>

namespace incipit {

BenchRequests::BenchRequests(PromptSource source, uint64_t seed, float temperature,
                             std::optional<int32_t> block_size)
    : source_(std::move(source)), seed_(seed), temperature_(temperature) {
  if (block_size) cache_.emplace(*block_size);
}

v1::GenerateRequest BenchRequests::Make(int32_t index, int32_t user) {
  BenchPrompt prompt = source_.next(index, user);
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Assign(prompt.tokens.begin(), prompt.tokens.end());
  request.mutable_sampling()->set_temperature(temperature_);
  request.mutable_sampling()->set_seed(static_cast<int64_t>(seed_) + index);
  request.mutable_output()->set_max_tokens(static_cast<uint32_t>(prompt.output_tokens));
  request.mutable_output()->set_ignore_eos(true);
  if (!cache_) return request;
  implied_tokens_.push_back(static_cast<uint32_t>(cache_->NumCached(prompt.tokens)));
  // If two requests share a prefix, the server computes the prefix only once, even if the first
  // request is still running. The blocks of a prompt therefore count as cached when the prompt is
  // sent.
  cache_->Add(prompt.tokens);
  const auto slot = static_cast<size_t>(user);
  if (slot >= prompts_.size()) prompts_.resize(slot + 1);
  prompts_[slot] = std::move(prompt.tokens);
  return request;
}

void BenchRequests::OnEnd(const BenchEnd& end) {
  if (source_.on_end) source_.on_end(end);
  if (!cache_) return;
  std::vector<uint32_t> tokens = std::move(prompts_[static_cast<size_t>(end.user)]);
  // The server does not compute the keys and values of the last output token.
  if (!end.succeeded || end.output.empty()) return;
  tokens.insert(tokens.end(), end.output.begin(), end.output.end() - 1);
  cache_->Add(tokens);
}

bool BenchRequests::FillImplied(std::span<BenchRecord> records) const {
  if (!cache_ || cache_->is_full()) return false;
  for (size_t i = 0; i < std::min(records.size(), implied_tokens_.size()); ++i) {
    records[i].implied_tokens = implied_tokens_[i];
  }
  return true;
}

}  // namespace incipit
