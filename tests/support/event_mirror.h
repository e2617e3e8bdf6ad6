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
  // Returns false if an event contradicts the earlier events.
  bool Apply(const KvEvents& emitted, size_t block_size) {
    for (const KvEvent& event : emitted.events) {
      switch (event.kind) {
        case KvEvent::Kind::kStored:
          if (!Store(event, emitted.tokens.subspan(event.tokens_begin, block_size))) return false;
          break;
        case KvEvent::Kind::kRemoved:
          if (prefixes_.erase(event.key.bytes) == 0) return false;
          break;
        case KvEvent::Kind::kRestarted:
          is_complete_ = false;
          [[fallthrough]];
        case KvEvent::Kind::kCleared:
          prefixes_.clear();
          break;
        case KvEvent::Kind::kMoreCached:
          break;
        case KvEvent::Kind::kComplete:
          is_complete_ = true;
          break;
      }
    }
    return true;
  }
  const std::map<std::array<uint8_t, 32>, std::vector<TokenId>>& prefixes() const {
    return prefixes_;
  }
  // Returns true if the events have reported all blocks that were already cached when the event log
  // started.
  bool is_complete() const { return is_complete_; }

 private:
  bool Store(const KvEvent& event, std::span<const TokenId> tokens) {
    std::vector<TokenId> prefix;
    if (!event.starts_chain) {
      const auto parent = prefixes_.find(event.parent.bytes);
      if (parent == prefixes_.end()) return false;
      prefix = parent->second;
    }
    prefix.insert(prefix.end(), tokens.begin(), tokens.end());
    return prefixes_.emplace(event.key.bytes, std::move(prefix)).second;
  }

  std::map<std::array<uint8_t, 32>, std::vector<TokenId>> prefixes_;
  bool is_complete_ = false;
};

}  // namespace incipit
