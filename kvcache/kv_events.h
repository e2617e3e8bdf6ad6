// A log of the blocks that become findable or unfindable in the prefix cache. Programs outside of
// the server, such as routers, use the log to know which blocks are cached.
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
    kStored,   // lookups can now find a block with this key, and could find none before
    kRemoved,  // the last block with this key became unfindable
    kCleared,  // all blocks became unfindable
    kLost,     // the log was full and lost events; a reader needs a new KvSnapshot
  };
  Kind kind = Kind::kStored;
  // True if the block is the first block of a sequence. Only for kStored.
  bool starts_chain = false;
  BlockHash key{};
  // Key of the previous block of the sequence. Only for kStored.
  BlockHash parent{};
  // Index of the block's first token in KvEvents::tokens. Only for kStored.
  size_t tokens_begin = 0;
};

// The events in the log, valid until the cache is used again. The kStored event of a block follows
// the kStored event of the previous block of its sequence. kRemoved events have the reverse order.
struct KvEvents {
  std::span<const KvEvent> events;
  std::span<const TokenId> tokens;
};

// One kStored event for each key in the cache. The event of a block follows the event of the
// previous block of its sequence.
struct KvSnapshot {
  std::vector<KvEvent> events;
  std::vector<TokenId> tokens;
};

// A bounded log of the cache events since the last Clear. Records nothing before Listen is called.
class KvEventLog {
 public:
  // Starts the log. Reserves memory for `events_max` events with `block_size` tokens each.
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
  // Returns whether the log records events: Listen was called, and no event was lost since the last
  // Clear.
  bool is_open() const { return events_max_ > 0 && !lost_; }
  void KeepStored(const BlockHash& key, const BlockHash* parent, std::span<const TokenId> tokens);
  void Keep(const KvEvent& event);

  size_t events_max_ = 0;
  bool lost_ = false;  // true if events were lost since the last Clear
  std::vector<KvEvent> events_;
  std::vector<TokenId> tokens_;
};

}  // namespace incipit
