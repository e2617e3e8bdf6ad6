// A test listener that rebuilds the contents of the KV cache from the cache's events alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kvcache/kv_events.h"

namespace incipit {

// Rebuilds the token prefix of each cached block from the cache's events. Each entry maps the key
// of a stored block to the tokens of the block's whole prefix.
class EventMirror {
 public:
  // Returns false if an event contradicts the earlier events or if events were lost.
  bool Apply(const KvEvents& emitted, size_t block_size) {
    for (const KvEvent& event : emitted.events) {
      if (event.kind == KvEvent::Kind::kLost) return false;
      if (event.kind == KvEvent::Kind::kCleared) prefixes_.clear();
      const bool removed = event.kind == KvEvent::Kind::kRemoved;
      if (removed && prefixes_.erase(event.key.bytes) == 0) return false;
      if (event.kind != KvEvent::Kind::kStored) continue;
      std::vector<TokenId> prefix;
      if (!event.starts_chain) {
        const auto parent = prefixes_.find(event.parent.bytes);
        if (parent == prefixes_.end()) return false;
        prefix = parent->second;
      }
      const auto tokens = emitted.tokens.subspan(event.tokens_begin, block_size);
      prefix.insert(prefix.end(), tokens.begin(), tokens.end());
      if (!prefixes_.emplace(event.key.bytes, std::move(prefix)).second) return false;
    }
    return true;
  }
  const std::map<std::array<uint8_t, 32>, std::vector<TokenId>>& prefixes() const {
    return prefixes_;
  }

 private:
  std::map<std::array<uint8_t, 32>, std::vector<TokenId>> prefixes_;
};

}  // namespace incipit
