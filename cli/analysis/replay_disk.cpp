#include "cli/analysis/replay_disk.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/status.h"
#include "kvcache/tiers/chunk.h"

namespace incipit {
namespace {

constexpr double kDiskShareMin = 1e-9;
// A larger disk has no more hits than a disk of twice the working set.
constexpr double kDiskShareMax = 2;
constexpr double kDefaultWriteMegabytes = 200;
// Keys and values of one token in a model with 8 billion parameters: 32 layers, 8 key-value heads
// of 128 elements, 16 bits per element.
constexpr int64_t kDefaultTokenBytes = 131'072;
constexpr int64_t kTokenBytesMax = int64_t{1} << 24;

absl::Status CheckLog(const std::string& name, const BlockLog& log, double write_bytes_per_s) {
  if (!std::has_single_bit(static_cast<uint32_t>(log.block_tokens()))) {
    return InvalidArgument("--disk-capacity-share needs a --block-size that is a power of two");
  }
  if (write_bytes_per_s > 0 && log.request(log.num_requests() - 1).time == 0) {
    return InvalidArgument(
        "{} has no timestamps, which --disk-capacity-share needs to compute the times of writes; "
        "--disk-write-mb-s 0 simulates writes that take no time",
        name);
  }
  return absl::OkStatus();
}

}  // namespace

void BindReplayDiskFlags(Flags& flags, ReplayDiskFlags& values) {
  flags.Group("Disk");
  flags.Real(
      {"disk-capacity-share", "F",
       "Simulate a disk behind the cache. Size of the disk as a fraction of the bytes of all "
       "distinct chunks in the log, rounded up to segments of 64 MiB; 1: the disk holds all "
       "chunks."},
      values.capacity_share, {kDiskShareMin, kDiskShareMax});
  flags.Real({"disk-write-mb-s", "X",
              "Maximum number of megabytes (10^6 bytes) that are written to the disk in a second; "
              "0: writes take no time. Default: 200."},
             values.write_megabytes_per_s, {0, 1e6});
  flags.Integer({"kv-token-bytes", "N",
                 "Bytes of the keys and values of one token. Default: 131072, a model with 8 "
                 "billion parameters and 16 bits per element."},
                values.token_bytes, {1, kTokenBytesMax});
  flags.Real({"prefill-tokens-s", "X",
              "Number of prompt tokens that the server computes in a second. A chunk is stored "
              "when its last token is computed, and the output contains the prefill time that "
              "hits save. Not set: all chunks of a prompt are stored at once."},
             values.prefill_tokens_per_s, {1e-3, 1e9});
}

absl::Status CheckReplayDiskFlags(const ReplayDiskFlags& values) {
  if (values.capacity_share) return absl::OkStatus();
  const char* flag = values.write_megabytes_per_s  ? "--disk-write-mb-s"
                     : values.token_bytes          ? "--kv-token-bytes"
                     : values.prefill_tokens_per_s ? "--prefill-tokens-s"
                                                   : nullptr;
  if (flag == nullptr) return absl::OkStatus();
  return InvalidArgument("{} has an effect only with --disk-capacity-share", flag);
}

absl::StatusOr<std::pair<ReplayDisk, ReplayDiskText>> MakeReplayDisk(const ReplayDiskFlags& values,
                                                                     const std::string& name,
                                                                     const BlockLog& log) {
  const double write_bytes_per_s =
      1e6 * values.write_megabytes_per_s.value_or(kDefaultWriteMegabytes);
  INCIPIT_RETURN_IF_ERROR(CheckLog(name, log, write_bytes_per_s));
  const int64_t block_bytes = log.block_tokens() * values.token_bytes.value_or(kDefaultTokenBytes);
  const ChunkShape shape = MakeChunkShape(log.block_tokens(), static_cast<size_t>(block_bytes));
  const int64_t num_chunks = CountChunks(log, shape.blocks_per_chunk);
  if (num_chunks == 0) {
    return InvalidArgument("the prompts in {} have no full chunk of {} tokens", name,
                           shape.num_tokens());
  }
  const auto chunk_bytes = static_cast<int64_t>(shape.num_bytes());
  const int64_t segment_chunks = std::max<int64_t>(1, kDiskSegmentBytes / chunk_bytes);
  const double segments = *values.capacity_share * static_cast<double>(num_chunks) /
                          static_cast<double>(segment_chunks);
  const int64_t segments_max = std::max<int64_t>(2, static_cast<int64_t>(std::ceil(segments)));
  ReplayDiskText text = {.capacity_bytes = segments_max * segment_chunks * chunk_bytes,
                         .working_set_bytes = num_chunks * chunk_bytes,
                         .chunk_tokens = shape.num_tokens(),
                         .chunk_bytes = chunk_bytes,
                         .write_bytes_per_s = write_bytes_per_s,
                         .prefill_tokens_per_s = values.prefill_tokens_per_s};
  for (size_t r = 0; r < log.num_requests(); ++r) text.infinite_hits += log.num_seen(r);
  const ReplayDisk disk = {.disk = {.chunk_bytes = chunk_bytes,
                                    .segments_max = segments_max,
                                    .write_bytes_per_s = write_bytes_per_s},
                           .blocks_per_chunk = shape.blocks_per_chunk,
                           .prefill_tokens_per_s = values.prefill_tokens_per_s.value_or(0)};
  return std::pair(disk, text);
}

}  // namespace incipit
