// Declares EngineInbox, which stores requests of other threads until the engine thread handles
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/types.h"
#include "engine/cache_reporter.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/sequence.h"

namespace incipit {

inline constexpr int32_t kAllChoices = -1;

using SequenceGroups = std::vector<std::unique_ptr<SequenceGroup>>;

struct CancelOrder {
  RequestId id{};
  int32_t choice = kAllChoices;
};

struct PreviewOrder {
  std::unique_ptr<SequenceGroup> group;
  std::function<void(const AdmissionPreview&)> done;
};

// Requests of other threads to the engine thread: new requests, cancellations, cache resets,
// admission previews and reports of cached blocks. An admission preview predicts the blocks that a
// request needs. The engine thread empties the inbox between two steps.
struct EngineInbox {
  SequenceGroups submitted;
  std::vector<CancelOrder> cancelled;
  std::vector<std::function<void(bool)>> resets;
  std::vector<PreviewOrder> previews;
  CacheOrders cache;

  bool empty() const {
    return submitted.empty() && cancelled.empty() && resets.empty() && previews.empty() &&
           cache.empty();
  }
  void Clear() {
    submitted.clear();
    cancelled.clear();
    resets.clear();
    previews.clear();
    cache = {};
  }
};

}  // namespace incipit
