// Divides a step's attention into pieces of work for the device (step_plan.h defines them).
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
  int32_t group = 1;  // query heads of a kv head
  int32_t max_tokens = 0, max_sequences = 0;
  int32_t max_pages = 0;  // maximum entries of all page tables of a step
  // List i is for layers with windows[i]; 1 to kMaxWindows windows
  std::vector<int32_t> windows = {0};
  int32_t max_decode_tokens = 16;   // sequences with more tokens in a step use prefill tiles
  int32_t max_decode_items = 8192;  // maximum for one list
  // Maximum for one list: rows of results of splits that are combined later
  int32_t max_partial_rows = 64 * 1024;
};

// Builds the plan of a step. Work beyond max_decode_items or max_partial_rows becomes prefill
// tiles, which are slower and give the same bits.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionPlanOptions& options);

  const AttentionPlanOptions& options() const { return options_; }
  // Returns the maximum number of bytes that Build writes.
  size_t max_bytes() const { return max_bytes_; }
  // Returns the maximum number of tiles of one list. Each tile has a counter of finished items for
  // every kv head.
  int32_t max_decode_tiles() const { return options_.max_decode_items; }
  int32_t max_partial_rows() const { return options_.max_partial_rows; }

  // Writes the plan of a step to `out` and returns the number of bytes written. Allocates nothing.
  // REQUIRES: the step is within the limits; `out` is aligned to 16 bytes.
  size_t Build(const Step& step, std::span<std::byte> out);

 private:
  struct Part;
  void AddSequence(const Step& step, size_t sequence, int32_t window);
  bool AddDecodeItems(const Part& part);
  void AddPrefillTiles(const Part& part);
  void SortDecodeItems();

  AttentionPlanOptions options_;
  size_t max_bytes_ = 0;
  // The list that is being built.
  std::vector<DecodeItem> decode_items_, sorted_items_;
  std::vector<PrefillTile> prefill_tiles_;
  int32_t num_decode_tiles_ = 0, num_partial_rows_ = 0;
};

}  // namespace incipit::cuda
