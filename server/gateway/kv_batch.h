// Builds the messages that a gateway receives from SubscribeKvEvents: batches of changes of the
// prefix cache.
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

// A serialized KvEventBatch (a message with changes of the prefix cache). The messages to several
// gateways share the same bytes.
using KvMessage = std::shared_ptr<const std::string>;

// Sets the sequence number of `batch` to `sequence` and the time of `batch` to the present time.
// Returns `batch` as serialized bytes.
KvMessage Serialize(smg::grpc::common::KvEventBatch& batch, uint64_t sequence);

// Collects changes of the prefix cache in one batch (message for gateways) of bounded size.
class KvBatchBuilder {
 public:
  // Maximum number of stored and removed blocks in one batch (message for gateways), and of tokens
  // in one batch. A batch has less than 1 MB, and gateways accept messages of at most 4 MB.
  static constexpr size_t kBlocksMax = 4096, kTokensMax = 65'536;

  // Returns the maximum number of stored blocks in one batch if each block has `block_size` tokens.
  static constexpr size_t StoredMax(size_t block_size) {
    return std::min(kBlocksMax, (kTokensMax + block_size - 1) / block_size);
  }

  // `first_event` is the number of the first event. Each further event has the next number. If
  // `first_event` is 0, all events have the number 0.
  explicit KvBatchBuilder(uint64_t first_event) : next_event_(first_event) {}

  void AddStored(const KvBlockView& block);
  void AddRemoved(int64_t hash);
  void AddCleared();

  bool empty() const { return batch_.events().empty(); }
  // Returns true if the batch is full. Take must then be called before the next change is added.
  bool is_full() const { return num_blocks_ >= kBlocksMax || num_tokens_ >= kTokensMax; }
  // Returns the collected batch, and begins a new batch.
  smg::grpc::common::KvEventBatch Take();

 private:
  smg::grpc::common::KvCacheEvent& AddEvent();

  smg::grpc::common::KvEventBatch batch_;
  uint64_t next_event_;
  size_t num_blocks_ = 0, num_tokens_ = 0;
};

// A snapshot of the prefix cache: messages for gateways that list all cached blocks at one time.
struct KvSnapshotMessages {
  // Sequence number of the last batch of changes that the snapshot includes. The last message of
  // the snapshot has the same number.
  uint64_t sequence = 0;
  std::vector<KvMessage> messages;  // the parts of the snapshot, at least one
};

// Returns a snapshot of the cached blocks in `mirror` (a copy of the list of cached blocks). The
// messages have consecutive sequence numbers that end at `sequence`.
std::shared_ptr<const KvSnapshotMessages> MakeSnapshot(const KvMirror& mirror, uint64_t sequence);

}  // namespace incipit
