// What kernels read about a step: one piece of memory, built by the host (attention_plan.h), copied
// to the device as it is. It begins with a StepHeader; offsets are bytes from there. A captured
// graph holds only the header's address, so it serves any lengths.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

inline constexpr int32_t kStepPositions = 64;  // attention goes in absolute steps of so many
inline constexpr int32_t kDecodeRows = 16;     // of a decode item: one tensor instruction's
inline constexpr int32_t kPrefillRows = 128;   // of a prefill tile
inline constexpr int32_t kMaxWindows = 4;      // different ones in one model

// A token of the step. 16 bytes.
struct StepRow {
  int32_t position = 0;
  int32_t slot = -1;   // where its key and value go: page * page_size + row of the page
  int32_t table = 0;   // the entry of its sequence's first page in the page tables
  int32_t length = 0;  // of its sequence up to and with this step's last token
};

// Rows of attention, that is pairs (token, head of a group), are numbered token by token within a
// part: consecutive tokens of one sequence whose rows split their positions at the same places. Row
// r of a part belongs to its token r / group and head r % group of the kv head's group.
//
// One block's work: up to 16 rows of a part, for one kv head, over positions [begin, end), a part
// of what lies between two splits. 48 bytes.
struct DecodeItem {
  int32_t token = 0;      // of the step: the part's first
  int32_t position = 0;   // of that token
  int32_t first_row = 0;  // in the part
  int32_t num_rows = 0;
  int32_t table = 0;           // as StepRow's
  int32_t begin = 0, end = 0;  // begin: a multiple of 64, or more if a window hides what is before
  int32_t split = 0, num_splits = 1;  // which of the tile's items this is
  int32_t partial =
      0;             // the tile's first row of partial results; split s, row r: + s * num_rows + r
  int32_t tile = 0;  // counts arrivals
  int32_t reserved = 0;
};

// One block's work: up to 128 rows of a part, for one kv head, over all their positions. 32 bytes.
struct PrefillTile {
  int32_t token = 0;      // of the step: the part's first
  int32_t position = 0;   // of that token
  int32_t first_row = 0;  // in the part
  int32_t num_rows = 0;
  int32_t table = 0;           // as StepRow's
  int32_t begin = 0, end = 0;  // positions that any row sees
  int32_t split_length = 0;
};

// The work of the layers with one window.
struct AttentionList {
  int32_t num_decode_items = 0, decode_items = 0;    // offset of DecodeItem[]
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;  // offset of PrefillTile[]
};

struct StepHeader {
  int32_t num_tokens = 0;
  int32_t rows = 0;         // offset of StepRow[num_tokens]
  int32_t page_tables = 0;  // offset of int32_t[]: pages
  int32_t tokens = 0;       // offset of int32_t[num_tokens] (embed.h)
  AttentionList lists[kMaxWindows] = {};
};

// A row that sees `span` positions (its window may hide the earlier ones) cuts them at absolute
// multiples of this, adds up each cut alone and then the cuts in order: whatever else is in the
// step, and in whichever kernel, its bits are the same. Lengths grow so that there are at most 33
// cuts.
INCIPIT_ANYWHERE constexpr int32_t SplitLength(int32_t span) {
  int32_t length = span < 2048 ? 256 : 512;
  while (span > 32 * int64_t{length}) length *= 2;
  return length;
}
inline constexpr int32_t kMaxSplits = 33;

INCIPIT_ANYWHERE constexpr int32_t Span(int32_t position, int32_t window) {
  return window > 0 && window <= position ? window : position + 1;
}

}  // namespace incipit::cuda
