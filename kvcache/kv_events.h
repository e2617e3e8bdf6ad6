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
    kRemoved,  // no block with this key can be found any more
    kCleared,  // all blocks became unfindable
    // The log of cache events starts, and all earlier events are void. The blocks that are cached
    // at the start are not reported until KvCacheManager::ReportCached() is called.
    kRestarted,
    // ReportCached() has reported a part of the cached blocks; the next call of ReportCached()
    // reports more blocks
    kMoreCached,
    kComplete,  // ReportCached() has reported all cached blocks
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

// The events in the log of cache events, valid until the cache is used again. The kStored event of
// a block follows the kStored event of the previous block of its sequence. kRemoved events have the
// reverse order.
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

// Determines which cached blocks the log of cache events reports.
enum class KvEventScope : uint8_t {
  // The log reports only blocks of the default tenant without a salt, an adapter, an image or
  // another medium. The keys of these blocks depend only on the hash seed and on tokens.
  kDefaultNamespace,
  kAll,
};

struct KvEventLogOptions {
  // Maximum number of events in the log of cache events, and maximum number of tokens in these
  // events.
  size_t events_max = 16'384;
  size_t tokens_max = 262'144;
  KvEventScope scope = KvEventScope::kDefaultNamespace;
};

// A bounded log of the cache events since the last call of Clear(). Records nothing before Open()
// is called.
class KvEventLog {
 public:
  // Starts the log with the event kRestarted. Reserves memory for `events_max` events and for
  // `tokens_max` tokens of cached blocks.
  void Open(size_t events_max, size_t tokens_max);
  void Close();

  // Returns true while the log records events. Returns false before Open(), after Close(), and
  // while is_lost() is true.
  bool is_open() const { return events_max_ > 0 && !lost_; }
  // Returns whether the log was full and has lost all its events. The log then records nothing
  // until Restart() is called.
  bool is_lost() const { return lost_; }
  // Replaces all events by one event kRestarted.
  void Restart();

  void AddStored(const BlockHash& key, const BlockHash* parent, std::span<const TokenId> tokens);
  void AddRemoved(const BlockHash& key) { Add({.kind = KvEvent::Kind::kRemoved, .key = key}); }
  // Adds an event that has no block key, such as kCleared.
  void AddMark(KvEvent::Kind kind) { Add({.kind = kind}); }

  KvEvents events() const { return {.events = events_, .tokens = tokens_}; }
  void Clear();

 private:
  void Add(const KvEvent& event);
  void Lose();

  size_t events_max_ = 0, tokens_max_ = 0;
  bool lost_ = false;
  std::vector<KvEvent> events_;
  std::vector<TokenId> tokens_;
};

}  // namespace incipit
