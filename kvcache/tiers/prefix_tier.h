// PrefixTier: a store of chunks (keys and values of prefixes) outside the device, for example on a
// disk. docs/tiers.md explains loads and stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/clock.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/retention.h"
#include "kvcache/tiers/chunk.h"

namespace incipit {

// Identifies a load that PrefixTier::Load has started, and its bytes in the staging memory.
enum class LoadTicket : uint64_t {};
// Identifies memory that PrefixTier::BeginStore has reserved for the bytes of one chunk.
enum class StoreTicket : uint64_t {};

// kReady: all bytes are in the staging memory and were verified. kFailed: the chunk cannot be used.
enum class LoadState : uint8_t { kPending, kReady, kFailed };

// Whether BeginStore can accept a chunk. kNow: yes. kLater: staging or a limit of the write rate
// has no room now. kNever: the tier has the chunk, a rule of the tier excludes the chunk, or the
// tier is not on.
enum class StoreRoom : uint8_t { kNow, kLater, kNever };

// Stores chunks outside the device. Other threads read and write the chunks. All bytes pass
// through staging, a memory of limited size on the host.
//
// No function blocks or allocates memory. All functions must be called on the engine thread. The
// results of other threads become visible only in Poll. So the state of a ticket changes only in
// Poll, Remove and Clear.
class PrefixTier {
 public:
  virtual ~PrefixTier() = default;

  virtual const ChunkShape& shape() const = 0;

  // Returns true if the tier probably has the chunk with the key `key`. Only Load verifies the
  // bytes of the chunk. Always false while the tier is turned off because of errors.
  virtual bool Has(const BlockHash& key) const = 0;

  // Marks the chunk with the key `key` as used by a request with the retention hint `retention`.
  // Returns true if the tier need not store the chunk again: the tier has the chunk for long enough
  // (see BeginStore), or a write of the chunk is pending. If a tier is full, the tier first removes
  // chunks that have a low priority or were not used for a long time.
  virtual bool Touch(const BlockHash& key, const Retention& retention) = 0;

  // Returns the predicted time until a load of `num_chunks` chunks is ready, if the load started
  // now.
  virtual Duration PredictLoad(int32_t num_chunks) const = 0;

  // Starts to load a chunk into staging. If a load of the same chunk is pending or ready, the
  // result is a ticket of the same load. Returns std::nullopt if the tier does not have the chunk,
  // or if staging is full. The caller must call Release once for each call of Load that returned a
  // ticket.
  virtual std::optional<LoadTicket> Load(const ChunkIdentity& chunk) = 0;
  virtual LoadState state(LoadTicket ticket) const = 0;
  // Returns the keys and values of the chunk: shape().num_bytes() bytes, block after block. The
  // bytes do not change until Release, even if the load fails in Remove or Clear. REQUIRES: the
  // state of `ticket` is kReady.
  virtual std::span<const std::byte> bytes(LoadTicket ticket) const = 0;
  // Ends the use of `ticket`. A pending load that has no other ticket is cancelled.
  virtual void Release(LoadTicket ticket) = 0;

  // Returns whether BeginStore can accept the chunk with the key `key`, although no further request
  // contains the chunk. Changes nothing.
  virtual StoreRoom RoomFor(const BlockHash& key) const = 0;
  // Reserves staging for the bytes of a chunk. Returns std::nullopt if the tier already has the
  // chunk, if a write of the chunk is pending, if staging is full, or if a rule of the tier
  // excludes the chunk (for example a limit of the write rate). The caller must fill bytes_of() and
  // call FinishStore, or must call CancelStore.
  //
  // `retention` is the hint of the request whose sequence has the chunk. The chunk cannot be loaded
  // later than retention.time_to_live after the call. If the tier has the chunk with another
  // expiry, the later expiry applies: the new chunk replaces a chunk that would expire within less
  // than half of retention.time_to_live. The priority is that of the request with the highest
  // priority. A tier ignores retention.pin.
  virtual std::optional<StoreTicket> BeginStore(const ChunkIdentity& chunk,
                                                const Retention& retention) = 0;
  virtual std::span<std::byte> bytes_of(StoreTicket ticket) = 0;
  // Starts to write the chunk. The tier releases the staging memory after the write.
  virtual void FinishStore(StoreTicket ticket) = 0;
  virtual void CancelStore(StoreTicket ticket) = 0;

  // Makes the results of other threads visible. Returns true if the state of a ticket has changed.
  virtual bool Poll() = 0;

  // Sets the function that other threads call when a load ends. If `wake` is null, no function is
  // called. After the return of SetWake, no thread calls the previous function. `wake` must not
  // call the tier.
  virtual void SetWake(std::function<void()> wake) = 0;

  // Removes the chunk with the key `key` and all chunks that follow this chunk in any sequence.
  // The tier need not have the chunk `key` itself. Pending and ready loads of these chunks fail.
  // The caller calls Remove if the contents of the chunk `key` are wrong.
  virtual void Remove(const BlockHash& key) = 0;
  // Removes all chunks. Pending and ready loads fail.
  virtual void Clear() = 0;
};

}  // namespace incipit
