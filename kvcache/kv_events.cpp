#include "kvcache/kv_events.h"

#include "base/check.h"

namespace incipit {

void KvEventLog::Open(size_t events_max, size_t tokens_max) {
  INCIPIT_CHECK(events_max > 0 && tokens_max > 0);
  events_max_ = events_max;
  tokens_max_ = tokens_max;
  events_.reserve(events_max);
  tokens_.reserve(tokens_max);
  Restart();
}

void KvEventLog::Close() {
  Clear();
  lost_ = false;
  events_max_ = tokens_max_ = 0;
}

void KvEventLog::Restart() {
  Clear();
  lost_ = false;
  AddMark(KvEvent::Kind::kRestarted);
}

void KvEventLog::AddStored(const BlockHash& key, const BlockHash* parent,
                           std::span<const TokenId> tokens) {
  if (tokens.size() > tokens_max_ - tokens_.size()) {
    Lose();
    return;
  }
  Add({.kind = KvEvent::Kind::kStored,
       .starts_chain = parent == nullptr,
       .key = key,
       .parent = parent == nullptr ? BlockHash{} : *parent,
       .tokens_begin = tokens_.size()});
  if (!lost_) tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

// Adds `event` to the log of cache events. If the log is full, removes all its events and records
// nothing until Restart() is called. Does nothing if the log is not open.
void KvEventLog::Add(const KvEvent& event) {
  if (!is_open()) return;
  if (events_.size() == events_max_) {
    Lose();
    return;
  }
  events_.push_back(event);
}

void KvEventLog::Lose() {
  if (!is_open()) return;
  Clear();
  lost_ = true;
}

void KvEventLog::Clear() {
  events_.clear();
  tokens_.clear();
}

}  // namespace incipit
