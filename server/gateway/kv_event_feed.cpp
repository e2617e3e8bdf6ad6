#include "server/gateway/kv_event_feed.h"

#include <utility>

#include "base/check.h"

namespace incipit {

bool KvEventFeed::Apply(const KvEvents& events) {
  bool needs_more = false;
  for (const KvEvent& event : events.events) {
    const bool is_restart = event.kind == KvEvent::Kind::kRestarted;
    if (awaits_restart_ && !is_restart) continue;
    if (is_restart) {
      Reset();
      awaits_restart_ = false;
    }
    std::span<const TokenId> tokens;
    if (event.kind == KvEvent::Kind::kStored) {
      tokens = events.tokens.subspan(event.tokens_begin, mirror_.block_size());
    }
    if (ApplyOne(event, tokens)) needs_more = true;
  }
  Publish();
  return needs_more && !is_complete_;
}

// Applies one event of the engine. Returns true if the engine has reported only a part of the
// blocks in the cache, and must report the next part.
bool KvEventFeed::ApplyOne(const KvEvent& event, std::span<const TokenId> tokens) {
  if (batch_.is_full()) Publish();
  switch (event.kind) {
    case KvEvent::Kind::kStored:
      if (mirror_.Store(event, tokens) && is_complete_) {
        KvBlockView block = {.hash = WireHash(event.key), .tokens = tokens};
        if (!event.starts_chain) block.parent = WireHash(event.parent);
        batch_.AddStored(block);
      }
      return false;
    case KvEvent::Kind::kRemoved:
      if (mirror_.Remove(event.key) && is_complete_) batch_.AddRemoved(WireHash(event.key));
      return false;
    case KvEvent::Kind::kCleared:
      mirror_.Clear();
      if (is_complete_) batch_.AddCleared();
      return false;
    case KvEvent::Kind::kRestarted:
    case KvEvent::Kind::kMoreCached:
      return true;
    case KvEvent::Kind::kComplete:
      is_complete_ = true;
      return false;
  }
  return false;
}

// Increases `sequence_`, so that Follows() returns false for the sequence numbers of batches from
// before the reset.
void KvEventFeed::Reset() {
  mirror_.Clear();
  static_cast<void>(batch_.Take());
  history_.clear();
  history_bytes_ = 0;
  ++sequence_;
  is_complete_ = false;
  awaits_restart_ = true;
}

void KvEventFeed::Publish() {
  if (batch_.empty()) return;
  auto batch = batch_.Take();
  history_.push_back(Serialize(batch, ++sequence_));
  history_bytes_ += history_.back()->size();
  while (history_bytes_ > history_bytes_max_ && history_.size() > 1) {
    history_bytes_ -= history_.front()->size();
    history_.pop_front();
  }
}

bool KvEventFeed::Follows(uint64_t sequence) const {
  return is_complete_ && sequence <= sequence_ && sequence_ - sequence <= history_.size();
}

KvMessage KvEventFeed::After(uint64_t sequence) const {
  INCIPIT_CHECK(Follows(sequence) && sequence < sequence_);
  return history_[history_.size() - (sequence_ - sequence)];
}

std::shared_ptr<const KvSnapshotMessages> KvEventFeed::Snapshot() {
  INCIPIT_CHECK(is_complete_);
  std::erase_if(snapshots_, [](const auto& snapshot) { return snapshot.expired(); });
  if (!snapshots_.empty()) {
    auto latest = snapshots_.back().lock();
    if (latest != nullptr && Follows(latest->sequence)) return latest;
  }
  if (snapshots_.size() >= kSnapshotsMax) return nullptr;
  auto snapshot = MakeSnapshot(mirror_, sequence_);
  snapshots_.push_back(snapshot);
  return snapshot;
}

}  // namespace incipit
