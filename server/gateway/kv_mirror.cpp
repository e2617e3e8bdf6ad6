#include "server/gateway/kv_mirror.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {

bool KvMirror::Store(const KvEvent& event, std::span<const TokenId> tokens) {
  INCIPIT_CHECK(tokens.size() == block_size_);
  const auto [it, is_new] = slots_.try_emplace(event.key, kNone);
  if (!is_new) return false;
  uint32_t slot = kNone;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + block_size_);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  it->second = slot;
  nodes_[slot] = {.hash = WireHash(event.key),
                  .parent = WireHash(event.parent),
                  .starts_chain = event.starts_chain,
                  .previous = last_};
  std::ranges::copy(tokens, TokensOf(slot).begin());
  (last_ == kNone ? first_ : nodes_[last_].next) = slot;
  last_ = slot;
  return true;
}

bool KvMirror::Remove(const BlockHash& key) {
  const auto it = slots_.find(key);
  if (it == slots_.end()) return false;
  const uint32_t slot = it->second;
  const Node& node = nodes_[slot];
  (node.previous == kNone ? first_ : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? last_ : nodes_[node.next].previous) = node.previous;
  slots_.erase(it);
  free_.push_back(slot);
  return true;
}

void KvMirror::Clear() { *this = KvMirror(static_cast<int32_t>(block_size_)); }

void KvMirror::ForEach(absl::FunctionRef<void(const KvBlockView&)> visit) const {
  for (uint32_t slot = first_; slot != kNone; slot = nodes_[slot].next) {
    const Node& node = nodes_[slot];
    KvBlockView view = {.hash = node.hash,
                        .tokens = std::span(tokens_).subspan(slot * block_size_, block_size_)};
    if (!node.starts_chain) view.parent = node.parent;
    visit(view);
  }
}

}  // namespace incipit
