// The plan of a step (a batch of prefill and decode) that the kernels read: one memory range that
// begins with a StepHeader. The host builds the plan (attention_plan.h) and copies the plan to the
// device unchanged. All offsets in the plan are in bytes from the start of the StepHeader. A
// captured graph contains only the address of the StepHeader, so one graph serves steps with any
// sequence lengths.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Number of positions that attention processes in one iteration
inline constexpr int32_t kStepPositions = 64;
// Maximum number of attention rows (pairs of token and query head) of a DecodeItem, equal to the
// number of rows of one tensor instruction
inline constexpr int32_t kDecodeRows = 16;
// Maximum number of attention rows (pairs of token and query head) of a PrefillTile
inline constexpr int32_t kPrefillRows = 128;
inline constexpr int32_t kMaxWindows = 4;  // maximum number of different sliding windows in a model

// One token of the step (a batch of prefill and decode). Size: 16 bytes.
struct StepRow {
  int32_t position = 0;
  // Slot in the KV pool of the token's key and value: page * page_size + row in the page
  int32_t slot = -1;
  // Index of the sequence's first page in the array of all page numbers of the step
  int32_t table = 0;
  // Number of tokens of the token's sequence, including the tokens of this step
  int32_t length = 0;
};

// A DecodeItem is attention work for a thread block: up to 16 attention rows of a part, for each kv
// head, over positions [begin, end) of one split. Size: 48 bytes.
//
// A part is a range of consecutive tokens of one sequence whose positions are split at the same
// multiples (SplitLength). An attention row is a pair of a token and a query head. The query heads
// that share a kv head form a group. Row r of a part is the part's token r / group size and the
// group's head r % group size.
struct DecodeItem {
  // Index in the step of the first token of the part (consecutive tokens of one sequence)
  int32_t token = 0;
  // Position in the sequence of the first token of the part (consecutive tokens)
  int32_t position = 0;
  int32_t first_row = 0;  // index of the item's first attention row among the rows of the part
  int32_t num_rows = 0;
  // Index of the sequence's first page in the array of all page numbers of the step
  int32_t table = 0;
  // Positions [begin, end) to attend to; `begin` is a multiple of 64 unless the sliding window
  // starts later
  int32_t begin = 0, end = 0;
  // Index of this item among the items with the same attention rows; number of these items
  int32_t split = 0, num_splits = 1;
  // Index in the workspace of the first partial result of the item's rows. The result of split s
  // and row r is at partial + s * num_rows + r.
  int32_t partial = 0;
  int32_t tile = 0;  // index of the counter that counts finished items with the same attention rows
  int32_t reserved = 0;
};

// A PrefillTile is attention work for a thread block: up to 128 attention rows (pairs of token and
// query head) of a part (consecutive tokens of one sequence), for each kv head, over all positions
// that the rows attend to. Size: 32 bytes.
struct PrefillTile {
  // Index in the step of the first token of the part (consecutive tokens of one sequence)
  int32_t token = 0;
  // Position in the sequence of the first token of the part (consecutive tokens)
  int32_t position = 0;
  int32_t first_row = 0;  // index of the tile's first attention row among the rows of the part
  int32_t num_rows = 0;
  // Index of the sequence's first page in the array of all page numbers of the step
  int32_t table = 0;
  // Positions [begin, end) that at least one row of the tile attends to
  int32_t begin = 0, end = 0;
  int32_t split_length = 0;
};

// The attention work of a step for all layers with the same sliding window.
struct AttentionList {
  // Number of items; offset of DecodeItem[] in bytes from the StepHeader
  int32_t num_decode_items = 0, decode_items = 0;
  // Number of tiles; offset of PrefillTile[] in bytes from the StepHeader
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;
};

struct StepHeader {
  int32_t num_tokens = 0;
  int32_t rows = 0;  // offset of StepRow[num_tokens] in bytes from the StepHeader
  // Offset of int32_t[], the page numbers of all sequences, in bytes from the StepHeader
  int32_t page_tables = 0;
  // Offset of int32_t[num_tokens], the token ids (embed.h), in bytes from the StepHeader
  int32_t tokens = 0;
  AttentionList lists[kMaxWindows] = {};
};

// Returns the split length, in positions, for an attention row that attends to `span` positions.
// Attention cuts the positions of a row at multiples of the split length. Each piece (a split) is
// summed alone, then the sums of the splits are added in order. The bits of a row therefore depend
// neither on the other rows of the step nor on the kernel. The split length grows with `span`, so a
// row has at most 33 splits.
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
