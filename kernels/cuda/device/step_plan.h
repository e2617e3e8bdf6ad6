// The plan of a step that the kernels read: one memory range that begins with a StepHeader. The
// host builds the plan (attention_plan.h) and copies it to the device unchanged. All offsets are in
// bytes from the start of the StepHeader. A captured graph contains only the header's address, so
// one graph serves steps with any sequence lengths.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

inline constexpr int32_t kStepPositions = 64;  // attention processes 64 positions at a time
// Maximum rows of a DecodeItem: the rows of one tensor instruction
inline constexpr int32_t kDecodeRows = 16;
inline constexpr int32_t kPrefillRows = 128;  // maximum rows of a PrefillTile
inline constexpr int32_t kMaxWindows = 4;     // maximum number of different windows in a model

// One token of the step. 16 bytes.
struct StepRow {
  int32_t position = 0;
  // Where the token's key and value are stored: page * page_size + row in the page
  int32_t slot = -1;
  int32_t table = 0;   // index in the page tables of its sequence's first page
  int32_t length = 0;  // tokens of the token's sequence, including this step's tokens
};

// A part is a run of consecutive tokens of one sequence whose attention splits lie at the same
// positions. An attention row is a pair (token, query head) within one kv head's group of query
// heads. Row r of a part belongs to the part's token r / group and to the group's head r % group.
//
// A DecodeItem is the attention work of one thread block: up to 16 rows of a part, for one kv head,
// over positions [begin, end) between two splits. 48 bytes.
struct DecodeItem {
  int32_t token = 0;      // index in the step of the part's first token
  int32_t position = 0;   // position of that token in its sequence
  int32_t first_row = 0;  // index in the part of the item's first row
  int32_t num_rows = 0;
  int32_t table = 0;                  // as in StepRow
  int32_t begin = 0, end = 0;         // `begin` is a multiple of 64 unless the window starts later
  int32_t split = 0, num_splits = 1;  // index and number of the items with the same rows
  // Index of the first partial result; split s, row r is at partial + s * num_rows + r.
  int32_t partial = 0;
  int32_t tile = 0;  // index of the counter of finished items with the same rows
  int32_t reserved = 0;
};

// A PrefillTile is the attention work of one thread block: up to 128 rows of a part, for one kv
// head, over all positions that the rows attend to. 32 bytes.
struct PrefillTile {
  int32_t token = 0;      // index in the step of the part's first token
  int32_t position = 0;   // position of that token in its sequence
  int32_t first_row = 0;  // index in the part of the tile's first row
  int32_t num_rows = 0;
  int32_t table = 0;           // as in StepRow
  int32_t begin = 0, end = 0;  // positions [begin, end) that at least one row attends to
  int32_t split_length = 0;
};

// The attention work of all layers with the same window.
struct AttentionList {
  int32_t num_decode_items = 0, decode_items = 0;    // offset in bytes of DecodeItem[]
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;  // offset in bytes of PrefillTile[]
};

struct StepHeader {
  int32_t num_tokens = 0;
  int32_t rows = 0;         // offset in bytes of StepRow[num_tokens]
  int32_t page_tables = 0;  // offset in bytes of int32_t[], the page numbers
  int32_t tokens = 0;       // offset in bytes of int32_t[num_tokens], the token ids (embed.h)
  AttentionList lists[kMaxWindows] = {};
};

// Returns the distance between splits for an attention row that attends to `span` positions.
// Attention splits the positions of a row at absolute multiples of this distance. Each split is
// summed alone, then the splits are added in order. The bits of a row therefore depend neither on
// the other rows of the step nor on the kernel. The distance grows with `span`, so a row has at
// most 33 splits.
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
