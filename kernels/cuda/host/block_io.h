// Copies the keys and values of whole cache blocks between the host and the device.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/cuda/host/memory.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// All bytes pass through pinned host memory of a fixed size, which the first call allocates.
class BlockIo {
 public:
  static absl::StatusOr<BlockIo> Create();

  // Copies the bytes of `writes` to pinned memory, and enqueues the copies from there to the blocks
  // on `stream`, behind all earlier steps. Waits for these steps only if the writes need more
  // pinned memory than is free.
  absl::Status Write(const DeviceKvPool& pool, std::span<const BlockWrite> writes, Stream& stream);

  // Copies `blocks` to `to` on a stream of its own, so that the copy does not wait for steps in
  // flight. Returns after the copy is complete, so that a later step may change the blocks.
  absl::Status Read(const DeviceKvPool& pool, std::span<const BlockId> blocks,
                    std::span<std::byte> to);

 private:
  // Pinned memory for some blocks. `end` marks the end of the copies that use the memory.
  struct Staging {
    Memory memory;
    Event end;
  };

  explicit BlockIo(Stream read_stream, std::array<Staging, 4> staging);

  // Returns the number of blocks that one Staging can hold.
  static size_t BlocksAtOnce(size_t block_bytes);
  // Waits until no copy uses the memory of `staging`, and allocates the memory if it is too small.
  static absl::Status Prepare(Staging& staging, size_t block_bytes);

  Stream read_stream_;
  // While the device copies from one Staging, the host fills the other.
  std::array<Staging, 2> writes_, reads_;
  size_t next_write_ = 0;
};

}  // namespace incipit::cuda
