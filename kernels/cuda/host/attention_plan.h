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
  int32_t max_pages = 0;  // maximum number of entries of all page tables of a step
  // Sliding windows of the model's layers, in positions (0: no window). List i of the plan is for
  // the layers with window windows[i]. REQUIRES: the number of windows is in [1, kMaxWindows].
  std::vector<int32_t> windows = {0};
  // If a sequence has more tokens than this in a step, its attention is computed in PrefillTiles
  int32_t max_decode_tokens = 16;
  int32_t max_decode_items = 8192;  // maximum number of DecodeItems in a list
  // Maximum number of partial rows of a list. A partial row is the result of one attention row
  // (token and query head) over one split (range of positions); the results of all splits are added
  // later.
  int32_t max_partial_rows = 64 * 1024;
};

// Builds the plan of the attention of a step (a batch of prefill and decode). If there are too many
// DecodeItems or partial results, the rest of the work becomes PrefillTiles, which are slower and
// compute the same bits.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionPlanOptions& options);

  const AttentionPlanOptions& options() const { return options_; }
  // Returns the maximum size in bytes of a plan that Build writes.
  size_t max_bytes() const { return max_bytes_; }
  // Returns the maximum number of different values of DecodeItem::tile in one list. Items with the
  // same value have the same attention rows and share a counter of finished items.
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
