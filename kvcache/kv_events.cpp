#include "kvcache/kv_events.h"

#include "base/check.h"

namespace incipit {

void KvEventLog::Listen(size_t events_max, int32_t block_size) {
  INCIPIT_CHECK(events_max > 0 && block_size > 0);
  events_max_ = events_max;
  events_.reserve(events_max);
  tokens_.reserve(events_max * static_cast<size_t>(block_size));
}

void KvEventLog::KeepStored(const BlockHash& key, const BlockHash* parent,
                            std::span<const TokenId> tokens) {
  Keep({.kind = KvEvent::Kind::kStored,
        .starts_chain = parent == nullptr,
        .key = key,
        .parent = parent == nullptr ? BlockHash{} : *parent,
        .tokens_begin = tokens_.size()});
  if (lost_) return;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

// Replaces all events by one event: all blocks became unfindable for lookups.
void KvEventLog::AddCleared() {
  if (!is_open()) return;
  Clear();
  Keep({.kind = KvEvent::Kind::kCleared});
}

// Adds `event` to the log. If the log is full, replaces all events by one kLost event.
void KvEventLog::Keep(const KvEvent& event) {
  if (events_.size() == events_max_) {
    Clear();
    lost_ = true;
    events_.push_back({.kind = KvEvent::Kind::kLost});
    return;
  }
  events_.push_back(event);
}

void KvEventLog::Clear() {
  lost_ = false;
  events_.clear();
  tokens_.clear();
}

}  // namespace incipit
