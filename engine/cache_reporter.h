// Reports changes of the prefix cache (added and removed blocks) to a listener. Only the engine
// thread uses a CacheReporter.
#pragma once

#include <cstddef>
#include <optional>

#include "kvcache/kv_cache_manager.h"

namespace incipit {

// Receives the blocks that are added to and removed from the prefix cache. The engine thread calls
// OnKvEvents after each step that changes the cache, so OnKvEvents must return quickly and must not
// block. The views in KvEvents are valid only during the call.
class KvEventListener {
 public:
  virtual ~KvEventListener() = default;
  virtual void OnKvEvents(const KvEvents& events) = 0;
};

// Commands that another thread sends to the CacheReporter: change the listener, or report cached
// blocks.
struct CacheOrders {
  // The new listener. A null pointer removes the listener. If the value is absent, the listener
  // stays the same.
  std::optional<KvEventListener*> listener{};
  // True: visit up to kVisitsMax cached blocks, and report those that were not reported to the
  // listener before.
  bool reports_cached = false;

  bool empty() const { return !listener && !reports_cached; }
};

class CacheReporter {
 public:
  // Maximum number of cached blocks that one call of Apply() visits.
  static constexpr size_t kVisitsMax = 256;

  // REQUIRES: `cache` outlives the CacheReporter.
  explicit CacheReporter(KvCacheManager& cache) : cache_(cache) {}

  void Apply(const CacheOrders& orders) {
    if (orders.listener) {
      listener_ = *orders.listener;
      listener_ == nullptr ? cache_.StopListening() : cache_.Listen({});
    }
    if (orders.reports_cached) cache_.ReportCached(kVisitsMax);
  }
  // Calls the listener with the changes of the cache since the previous call of Report.
  void Report() {
    if (listener_ == nullptr) return;
    const KvEvents events = cache_.Events();
    if (events.events.empty()) return;
    listener_->OnKvEvents(events);
    cache_.ClearEvents();
  }

 private:
  KvCacheManager& cache_;
  KvEventListener* listener_ = nullptr;
};

}  // namespace incipit
