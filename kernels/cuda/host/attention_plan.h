// Divides the attention of a step (a batch of prefill and decode) into work items for the thread
// blocks of the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device/step_plan.h"

namespace incipit::cuda {

struct AttentionPlanOptions {
  int32_t page_size = 16;
  int32_t group = 1;  // number of query heads that share a KV head
  int32_t max_tokens = 0, max_sequences = 0;
  // maximum total number of KV cache pages of all sequences of a step (batch)
  int32_t max_pages = 0;
  // Distinct sliding-window sizes of the model's layers, in positions; 0: no window.
  // StepHeader::lists[i] is for windows[i]. REQUIRES: the number of sizes is in [1, kMaxWindows].
  std::vector<int32_t> windows = {0};
  // Sequences with at most this number of tokens in the step (batch) use kernel DecodeAttention;
  // all other sequences use kernel PrefillAttention.
  int32_t max_decode_tokens = 16;
  // Maximum number of work items of kernel DecodeAttention for each element of `windows` (the
  // distinct sliding-window sizes of the model's layers).
  int32_t max_decode_items = 8192;
  // Maximum number of partial attention results for each element of `windows` (the distinct
  // sliding-window sizes of the model's layers). A partial result belongs to one token and query
  // head, and covers only some of the positions that the token attends to.
  int32_t max_partial_rows = 64 * 1024;
};

// Divides the attention of a step (a batch of prefill and decode) into work items for the kernels
// DecodeAttention and PrefillAttention. If the decode work exceeds a limit, PrefillAttention
// computes the same results more slowly.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionPlanOptions& options);

  const AttentionPlanOptions& options() const { return options_; }
  // Returns the maximum size in bytes of the data that Build writes for a step: work items and
  // other arrays.
  size_t max_bytes() const { return max_bytes_; }
  // Returns the maximum number of counters that kernel DecodeAttention needs. A counter counts
  // finished work items.
  int32_t max_decode_tiles() const { return options_.max_decode_items; }
  int32_t max_partial_rows() const { return options_.max_partial_rows; }

  // Writes the work items and other arrays for the attention kernels of `step` to `out`, and
  // returns their total size in bytes. Allocates no memory. REQUIRES: the step is within the limits
  // of the options; `out` is aligned to 16 bytes.
  size_t Build(const Step& step, std::span<std::byte> out);

 private:
  struct Part;
  void AddSequence(const Step& step, size_t sequence, int32_t window);
  bool AddDecodeItems(const Part& part);
  void AddPrefillTiles(const Part& part);
  void SortDecodeItems();

  AttentionPlanOptions options_;
  size_t max_bytes_ = 0;
  // Work items of decode attention for the sliding-window size that Build is processing.
  // decode_items_: in the order of creation. sorted_items_: sorted by number of positions.
  std::vector<DecodeItem> decode_items_, sorted_items_;
  std::vector<PrefillTile> prefill_tiles_;
  int32_t num_decode_tiles_ = 0, num_partial_rows_ = 0;
};

}  // namespace incipit::cuda
