// Stores the cached chunks that a tier lacks, before the cache ends.
#pragma once

#include "absl/functional/function_ref.h"
#include "engine/model_runner.h"
#include "engine/store_chunks.h"
#include "kvcache/tiers/cached_chunks.h"
#include "kvcache/tiers/prefix_tier.h"

namespace incipit {

// Copies `chunks` in their order to the staging memory of `tier`, as far as `tier` accepts the
// chunks. Skips a chunk if `tier` does not have the previous chunk of the sequence, because lookups
// would never find the chunk. While `tier` has no room, calls `await_room`, which must call
// PrefixTier::Poll. Returns when `is_late` returns true. REQUIRES: no step is in flight, and the
// blocks of `chunks` have their contents.
StoredChunks StoreRest(const CachedChunks& chunks, ModelRunner& runner, PrefixTier& tier,
                       absl::FunctionRef<bool()> is_late, absl::FunctionRef<void()> await_room);

}  // namespace incipit
