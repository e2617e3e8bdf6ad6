// Divides the attention of a step (a batch of prefill and decode) into work for the thread blocks
// of the device: DecodeItems and PrefillTiles (step_plan.h).
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
  int32_t group = 1;  // number of query heads that share a kv head
  int32_t max_tokens = 0, max_sequences = 0;
  int32_t max_pages = 0;  // maximum number of pages of all sequences of a step together
  // Sliding windows of the model's layers, in positions (0: no window). AttentionList i is for the
  // layers with window windows[i]. REQUIRES: the number of windows is in [1, kMaxWindows].
  std::vector<int32_t> windows = {0};
  // Maximum number of tokens of a sequence in a step for which DecodeAttention computes attention.
  // For more tokens, PrefillAttention computes attention.
  int32_t max_decode_tokens = 16;
  int32_t max_decode_items = 8192;  // maximum number of DecodeItems in an AttentionList
  // Maximum number of partial results of an AttentionList. A partial result is for one token and
  // query head over a part of the token's positions.
  int32_t max_partial_rows = 64 * 1024;
};

// Builds the attention plan of a step (a batch of prefill and decode): work items for the kernels
// DecodeAttention and PrefillAttention. If the work items for DecodeAttention exceed a limit,
// PrefillAttention computes the attention instead, with the same bits but more slowly.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionPlanOptions& options);

  const AttentionPlanOptions& options() const { return options_; }
  // Returns the maximum size in bytes of a plan that Build writes.
  size_t max_bytes() const { return max_bytes_; }
  // Returns the maximum number of counters of finished items that an AttentionList needs. Items
  // that process the same tokens and query heads share a counter (DecodeItem::tile).
  int32_t max_decode_tiles() const { return options_.max_decode_items; }
  int32_t max_partial_rows() const { return options_.max_partial_rows; }

  // Writes the plan of `step` to `out` and returns the size of the plan in bytes. Allocates no
  // memory. REQUIRES: the step is within the limits of the options; `out` is aligned to 16 bytes.
  size_t Build(const Step& step, std::span<std::byte> out);

 private:
  struct Part;
  void AddSequence(const Step& step, size_t sequence, int32_t window);
  bool AddDecodeItems(const Part& part);
  void AddPrefillTiles(const Part& part);
  void SortDecodeItems();

  AttentionPlanOptions options_;
  size_t max_bytes_ = 0;
  // Decode items of the AttentionList that Build is computing, before and after sorting.
  std::vector<DecodeItem> decode_items_, sorted_items_;
  std::vector<PrefillTile> prefill_tiles_;
  int32_t num_decode_tiles_ = 0, num_partial_rows_ = 0;
};

}  // namespace incipit::cuda
