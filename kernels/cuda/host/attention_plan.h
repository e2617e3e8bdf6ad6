// Cuts a step's attention into pieces of work for the device (step_plan.h says what they are).
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
  int32_t max_pages = 0;                 // entries of all page tables of a step
  std::vector<int32_t> windows = {0};    // list i is for layers with windows[i]; 1 to kMaxWindows
  int32_t max_decode_tokens = 16;        // a sequence with more in a step goes in prefill tiles
  int32_t max_decode_items = 8192;       // of one list
  int32_t max_partial_rows = 64 * 1024;  // of one list: results of splits that wait for the others
};

// What does not fit max_decode_items or max_partial_rows goes in prefill tiles: slower, same bits.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionPlanOptions& options);

  const AttentionPlanOptions& options() const { return options_; }
  // Of what Build writes, at most.
  size_t max_bytes() const { return max_bytes_; }
  // Of one list, each with a counter of arrivals for every kv head.
  int32_t max_decode_tiles() const { return options_.max_decode_items; }
  int32_t max_partial_rows() const { return options_.max_partial_rows; }

  // Writes the plan of a step, which is within the limits, to `out` (aligned to 16) and returns how
  // many bytes it took. Allocates nothing.
  size_t Build(const Step& step, std::span<std::byte> out);

 private:
  struct Part;
  void AddSequence(const Step& step, size_t sequence, int32_t window);
  bool AddDecodeItems(const Part& part);
  void AddPrefillTiles(const Part& part);
  void SortDecodeItems();

  AttentionPlanOptions options_;
  size_t max_bytes_ = 0;
  // Of the list that is being built.
  std::vector<DecodeItem> decode_items_, sorted_items_;
  std::vector<PrefillTile> prefill_tiles_;
  int32_t num_decode_tiles_ = 0, num_partial_rows_ = 0;
};

}  // namespace incipit::cuda
