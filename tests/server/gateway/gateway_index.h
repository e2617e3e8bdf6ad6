// A test gateway that learns the contents of a prefix cache from the messages of SubscribeKvEvents,
// by the same rules as the SMG gateway.
#pragma once

#include <smg/grpc/common/common.pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"

namespace incipit {

class GatewayIndex {
 public:
  using Batch = smg::grpc::common::KvEventBatch;

  // Applies `batch`. Adds an error to errors() if the batch breaks the protocol.
  void Apply(const Batch& batch) {
    if (batch.has_load() && batch.load().load_only()) {
      ++num_loads_;
      Expect(batch.events().empty(), "a load record contains events");
      Expect(batch.sequence_number() == cursor_, "a load record has a new sequence number");
      Expect(batch.load().sample() > sample_, "the sample number of a load record does not grow");
      sample_ = batch.load().sample();
      return;
    }
    if (batch.has_snapshot()) {
      ApplyChunk(batch);
    } else {
      Expect(chunks_left_ == 0, "a batch arrived between the messages of a snapshot");
      Expect(batch.sequence_number() == cursor_ + 1,
             "a batch does not have the next sequence number");
      ++num_batches_;
    }
    cursor_ = batch.sequence_number();
    for (const auto& event : batch.events()) ApplyEvent(event, batch.has_snapshot());
    if (batch.has_snapshot() && chunks_left_ == 0) {
      Expect(prefixes_.size() == batch.snapshot().blocks(),
             "a snapshot has a wrong number of blocks");
    }
  }
  // Forgets all blocks, as a gateway does when its subscription ends with OUT_OF_RANGE.
  void Forget() { *this = GatewayIndex(); }
  // Begins a new subscription, which numbers its load records from the start.
  void Reconnect() {
    sample_ = 0;
    chunks_left_ = 0;
  }

  // Returns the known prefixes. Each prefix ends at a block boundary.
  std::multiset<std::vector<TokenId>> Prefixes() const {
    std::multiset<std::vector<TokenId>> prefixes;
    for (const auto& [hash, tokens] : prefixes_) prefixes.insert(tokens);
    return prefixes;
  }
  const std::string& errors() const { return errors_; }
  uint64_t cursor() const { return cursor_; }
  int num_snapshots() const { return num_snapshots_; }
  int num_batches() const { return num_batches_; }
  int num_loads() const { return num_loads_; }

 private:
  void Expect(bool condition, const std::string& error) {
    if (!condition) errors_ += error + "; ";
  }

  void ApplyChunk(const Batch& batch) {
    const auto& chunk = batch.snapshot();
    if (chunk.index() == 0) {
      ++num_snapshots_;
      chunks_left_ = chunk.count();
      Expect(!batch.events().empty() && batch.events(0).has_cleared(),
             "a snapshot does not begin with Cleared");
    } else {
      Expect(batch.sequence_number() == cursor_ + 1,
             "a message of a snapshot does not have the next sequence number");
    }
    Expect(chunk.index() + chunks_left_ == chunk.count(),
           "the messages of a snapshot are in the wrong order");
    --chunks_left_;
  }

  void ApplyEvent(const smg::grpc::common::KvCacheEvent& event, bool is_snapshot) {
    Expect((event.event_id() == 0) == is_snapshot, "a wrong event_id");
    if (event.has_cleared()) prefixes_.clear();
    for (const int64_t hash : event.removed().block_hashes()) {
      Expect(prefixes_.erase(hash) == 1, "an event removes an unknown block");
    }
    if (!event.has_stored()) return;
    std::vector<TokenId> prefix;
    if (event.stored().has_parent_block_hash()) {
      const auto parent = prefixes_.find(event.stored().parent_block_hash());
      Expect(parent != prefixes_.end(), "the parent of a stored block is unknown");
      if (parent != prefixes_.end()) prefix = parent->second;
    }
    for (const auto& block : event.stored().blocks()) {
      Expect(block.token_ids_size() == block.block_size(), "a stored block is not full");
      prefix.insert(prefix.end(), block.token_ids().begin(), block.token_ids().end());
      Expect(prefixes_.emplace(block.block_hash(), prefix).second, "a block is stored twice");
    }
  }

  std::map<int64_t, std::vector<TokenId>> prefixes_;
  uint64_t cursor_ = 0, sample_ = 0;
  uint32_t chunks_left_ = 0;
  int num_snapshots_ = 0, num_batches_ = 0, num_loads_ = 0;
  std::string errors_;
};

}  // namespace incipit
