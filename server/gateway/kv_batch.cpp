#include "server/gateway/kv_batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace incipit {

namespace wire = smg::grpc::common;

KvMessage Serialize(wire::KvEventBatch& batch, uint64_t sequence) {
  batch.set_sequence_number(sequence);
  batch.set_timestamp(std::chrono::duration<double>(UnixTime()).count());
  batch.set_dp_rank(0);
  return std::make_shared<const std::string>(batch.SerializeAsString());
}

wire::KvCacheEvent& KvBatchBuilder::AddEvent() {
  wire::KvCacheEvent& event = *batch_.add_events();
  if (next_event_ > 0) event.set_event_id(next_event_++);
  return event;
}

// Appends `block` to the last event of the batch if this event ends with the parent of `block` (the
// previous block of the prompt). Otherwise, adds a new event to the batch.
void KvBatchBuilder::AddStored(const KvBlockView& block) {
  wire::KvBlocksStored* stored = nullptr;
  if (block.parent && !empty()) {
    wire::KvCacheEvent& last = *batch_.mutable_events()->rbegin();
    if (last.has_stored() && last.stored().blocks().rbegin()->block_hash() == *block.parent) {
      stored = last.mutable_stored();
    }
  }
  if (stored == nullptr) {
    stored = AddEvent().mutable_stored();
    stored->set_tier(wire::KV_CACHE_TIER_DEVICE);
    if (block.parent) stored->set_parent_block_hash(*block.parent);
  }
  wire::KvBlock& out = *stored->add_blocks();
  out.set_block_hash(block.hash);
  out.mutable_token_ids()->Add(block.tokens.begin(), block.tokens.end());
  out.set_block_size(static_cast<int32_t>(block.tokens.size()));
  ++num_blocks_;
  num_tokens_ += block.tokens.size();
}

void KvBatchBuilder::AddRemoved(int64_t hash) {
  const bool extends = !empty() && batch_.events().rbegin()->has_removed();
  wire::KvCacheEvent& event = extends ? *batch_.mutable_events()->rbegin() : AddEvent();
  event.mutable_removed()->set_tier(wire::KV_CACHE_TIER_DEVICE);
  event.mutable_removed()->add_block_hashes(hash);
  ++num_blocks_;
}

void KvBatchBuilder::AddCleared() { AddEvent().mutable_cleared(); }

wire::KvEventBatch KvBatchBuilder::Take() {
  num_blocks_ = num_tokens_ = 0;
  return std::exchange(batch_, {});
}

std::shared_ptr<const KvSnapshotMessages> MakeSnapshot(const KvMirror& mirror, uint64_t sequence) {
  const size_t blocks_per_batch = KvBatchBuilder::StoredMax(mirror.block_size());
  const size_t count =
      std::max<size_t>(1, (mirror.size() + blocks_per_batch - 1) / blocks_per_batch);
  auto snapshot = std::make_shared<KvSnapshotMessages>();
  snapshot->sequence = sequence;
  KvBatchBuilder builder(0);
  const auto add_message = [&] {
    wire::KvEventBatch batch = builder.Take();
    const size_t index = snapshot->messages.size();
    wire::KvSnapshotChunk& chunk = *batch.mutable_snapshot();
    chunk.set_index(static_cast<uint32_t>(index));
    chunk.set_count(static_cast<uint32_t>(count));
    chunk.set_blocks(mirror.size());
    snapshot->messages.push_back(Serialize(batch, sequence - (count - 1 - index)));
  };
  builder.AddCleared();
  mirror.ForEach([&](const KvBlockView& block) {
    if (builder.is_full()) add_message();
    builder.AddStored(block);
  });
  add_message();
  INCIPIT_CHECK(snapshot->messages.size() == count);
  return snapshot;
}

}  // namespace incipit
