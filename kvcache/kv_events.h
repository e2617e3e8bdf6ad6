// What became findable and what no longer is, in order: for routers and whoever else mirrors the
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kvcache/keys/block_hash.h"

namespace incipit {

struct KvEvent {
  enum class Kind : uint8_t {
    kStored,   // the first block with this key was published
    kRemoved,  // the last one went
    kCleared,  // all of them did
    kLost,     // events are missing here: a listener starts anew from a snapshot
  };
  Kind kind = Kind::kStored;
  bool starts_chain = false;  // of kStored: there is no parent
  BlockHash key{};
  BlockHash parent{};       // of kStored
  size_t tokens_begin = 0;  // of kStored: where the block's tokens begin in KvEvents::tokens
};

// Stored keys come after their parents, removed ones before. Each key is stored once and removed
// once. Valid until the cache is used again.
struct KvEvents {
  std::span<const KvEvent> events;
  std::span<const TokenId> tokens;
};

// Everything stored, as events would have told it.
struct KvSnapshot {
  std::vector<KvEvent> events;
  std::vector<TokenId> tokens;
};

// A bounded list of events between two looks at it. Off until Listen: then it costs nothing.
class KvEventLog {
 public:
  // Keeps up to `events_max` events, with `block_size` tokens for each, from now on.
  void Listen(size_t events_max, int32_t block_size);

  void AddStored(const BlockHash& key, const BlockHash* parent, std::span<const TokenId> tokens) {
    if (is_open()) KeepStored(key, parent, tokens);
  }
  void AddRemoved(const BlockHash& key) {
    if (is_open()) Keep({.kind = KvEvent::Kind::kRemoved, .key = key});
  }
  void AddCleared();

  KvEvents events() const { return {.events = events_, .tokens = tokens_}; }
  void Clear();

 private:
  // Somebody listens, and nothing has been lost so far.
  bool is_open() const { return events_max_ > 0 && !lost_; }
  void KeepStored(const BlockHash& key, const BlockHash* parent, std::span<const TokenId> tokens);
  void Keep(const KvEvent& event);

  size_t events_max_ = 0;
  bool lost_ = false;  // since the last Clear
  std::vector<KvEvent> events_;
  std::vector<TokenId> tokens_;
};

}  // namespace incipit
