// The check of a request before the engine accepts the request.
#pragma once

#include "absl/status/status.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/request.h"

namespace incipit {

// Returns INVALID_ARGUMENT if a field of `request` is out of range, or if the request can never fit
// into `cache`. Thread-safe.
absl::Status CheckRequest(const Request& request, const KvCacheManager& cache);

}  // namespace incipit
