// Builds the messages of SubscribeKvEvents: batches of changes of the prefix cache.
#pragma once

#include <smg/grpc/common/common.pb.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/gateway/kv_mirror.h"

namespace incipit {

// Returns the time since 1970-01-01 UTC.
std::chrono::nanoseconds UnixTime();

// A serialized KvEventBatch. Several subscribers share the bytes.
using KvMessage = std::shared_ptr<const std::string>;

// Serializes `batch` with the sequence number `sequence` and the present time.
KvMessage Serialize(smg::grpc::common::KvEventBatch& batch, uint64_t sequence);

// Collects changes of the prefix cache in one batch of bounded size.
class KvBatchBuilder {
 public:
  // Maximum numbers of blocks, of removed blocks and of tokens in one batch. A batch has less than
  // 1 MB, and gateways accept messages of 4 MB.
  static constexpr size_t kBlocksMax = 4096, kTokensMax = 65'536;

  // Returns the maximum number of stored blocks in a batch of blocks with `block_size` tokens.
  static constexpr size_t StoredMax(size_t block_size) {
    return std::min(kBlocksMax, (kTokensMax + block_size - 1) / block_size);
  }

  // The events have the numbers from `first_event` on; 0: all events have the number 0.
  explicit KvBatchBuilder(uint64_t first_event) : next_event_(first_event) {}

  void AddStored(const KvBlockView& block);
  void AddRemoved(int64_t hash);
  void AddCleared();

  bool empty() const { return batch_.events().empty(); }
  // Returns true if the batch must be taken before the next change is added.
  bool is_full() const { return num_blocks_ >= kBlocksMax || num_tokens_ >= kTokensMax; }
  // Returns the batch, and begins a new batch.
  smg::grpc::common::KvEventBatch Take();

 private:
  smg::grpc::common::KvCacheEvent& AddEvent();

  smg::grpc::common::KvEventBatch batch_;
  uint64_t next_event_;
  size_t num_blocks_ = 0, num_tokens_ = 0;
};

// The contents of the prefix cache at one time, as messages for subscribers.
struct KvSnapshotMessages {
  // Sequence number of the last batch that the snapshot includes, and of the last message.
  uint64_t sequence = 0;
  std::vector<KvMessage> messages;  // at least one
};

// Returns the contents of `mirror`. The messages have consecutive sequence numbers that end at
// `sequence`.
std::shared_ptr<const KvSnapshotMessages> MakeSnapshot(const KvMirror& mirror, uint64_t sequence);

}  // namespace incipit
