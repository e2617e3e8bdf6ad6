#include "kernels/cuda/host/block_io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit::cuda {
namespace {

// Size in bytes of the pinned memory of one Staging, if a block is not larger.
constexpr size_t kBlockStagingBytes = size_t{8} << 20;

// The memory of a block is one row in each layer.
Stream::Rows RowsOf(const DeviceKvPool& pool) {
  const auto block_bytes = static_cast<size_t>(pool.layout().PageSize()) * sizeof(dev::bf16);
  return {.row_bytes = block_bytes, .num_rows = static_cast<size_t>(pool.shape().num_layers)};
}

size_t LayerBytes(const DeviceKvPool& pool) {
  return static_cast<size_t>(pool.layout().LayerSize(pool.shape().num_blocks)) * sizeof(dev::bf16);
}

// Returns the address of the keys and values of a block in the first layer.
dev::bf16* FirstRow(const DeviceKvPool& pool, BlockId block) {
  const auto index = static_cast<int32_t>(block);
  INCIPIT_CHECK(index >= 0 && index < pool.shape().num_blocks);
  return pool.layer(0) + index * pool.layout().PageSize();
}

}  // namespace

BlockIo::BlockIo(Stream read_stream, std::array<Staging, 4> staging)
    : read_stream_(std::move(read_stream)),
      writes_{std::move(staging[0]), std::move(staging[1])},
      reads_{std::move(staging[2]), std::move(staging[3])} {}

absl::StatusOr<BlockIo> BlockIo::Create() {
  INCIPIT_ASSIGN_OR_RETURN(Stream read_stream, Stream::Create());
  INCIPIT_ASSIGN_OR_RETURN(Event first, Event::Create());
  INCIPIT_ASSIGN_OR_RETURN(Event second, Event::Create());
  INCIPIT_ASSIGN_OR_RETURN(Event third, Event::Create());
  INCIPIT_ASSIGN_OR_RETURN(Event fourth, Event::Create());
  return BlockIo(std::move(read_stream),
                 {Staging{{}, std::move(first)}, Staging{{}, std::move(second)},
                  Staging{{}, std::move(third)}, Staging{{}, std::move(fourth)}});
}

size_t BlockIo::BlocksAtOnce(size_t block_bytes) {
  return std::max(size_t{1}, kBlockStagingBytes / block_bytes);
}

absl::Status BlockIo::Prepare(Staging& staging, size_t block_bytes) {
  INCIPIT_RETURN_IF_ERROR(staging.end.Wait());
  const size_t bytes = BlocksAtOnce(block_bytes) * block_bytes;
  if (staging.memory.byte_size() >= bytes) return absl::OkStatus();
  staging.memory = Memory();
  INCIPIT_ASSIGN_OR_RETURN(staging.memory, Memory::Allocate(Place::kPinned, bytes));
  return absl::OkStatus();
}

absl::Status BlockIo::Write(const DeviceKvPool& pool, std::span<const BlockWrite> writes,
                            Stream& stream) {
  const size_t block_bytes = pool.shape().block_bytes();
  while (!writes.empty()) {
    Staging& staging = writes_[std::exchange(next_write_, 1 - next_write_)];
    INCIPIT_RETURN_IF_ERROR(Prepare(staging, block_bytes));
    const auto piece = writes.first(std::min(writes.size(), BlocksAtOnce(block_bytes)));
    auto* memory = staging.memory.as<std::byte>();
    for (const BlockWrite& write : piece) {
      std::memcpy(memory, write.data, block_bytes);
      Stream::Rows rows = RowsOf(pool);
      rows.to = FirstRow(pool, write.to);
      rows.to_stride = LayerBytes(pool);
      rows.from = memory;
      rows.from_stride = rows.row_bytes;
      stream.CopyRows(rows);
      memory += block_bytes;
    }
    staging.end.Record(stream);
    writes = writes.subspan(piece.size());
  }
  return absl::OkStatus();
}

absl::Status BlockIo::Read(const DeviceKvPool& pool, std::span<const BlockId> blocks,
                           std::span<std::byte> to) {
  const size_t block_bytes = pool.shape().block_bytes();
  const size_t at_once = BlocksAtOnce(block_bytes);
  std::span<std::byte> copied;  // part of `to` for which copies to `other` are in flight
  for (size_t which = 0; !blocks.empty() || !copied.empty(); which = 1 - which) {
    Staging& staging = reads_[which];
    Staging& other = reads_[1 - which];
    const auto piece = blocks.first(std::min(blocks.size(), at_once));
    if (!piece.empty()) INCIPIT_RETURN_IF_ERROR(Prepare(staging, block_bytes));
    for (size_t i = 0; i < piece.size(); ++i) {
      Stream::Rows rows = RowsOf(pool);
      rows.to = staging.memory.as<std::byte>() + i * block_bytes;
      rows.to_stride = rows.row_bytes;
      rows.from = FirstRow(pool, piece[i]);
      rows.from_stride = LayerBytes(pool);
      read_stream_.CopyRows(rows);
    }
    if (!piece.empty()) staging.end.Record(read_stream_);
    if (!copied.empty()) {
      INCIPIT_RETURN_IF_ERROR(other.end.Wait());
      std::memcpy(copied.data(), other.memory.data(), copied.size());
    }
    copied = to.first(piece.size() * block_bytes);
    to = to.subspan(copied.size());
    blocks = blocks.subspan(piece.size());
  }
  return absl::OkStatus();
}

}  // namespace incipit::cuda
