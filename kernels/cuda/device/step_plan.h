// The plan of a step (a batch of prefill and decode) that the kernels read: one memory range that
// begins with a StepHeader. The host builds the plan (attention_plan.h) and copies the plan to the
// device unchanged. All offsets in the plan are in bytes from the start of the StepHeader. A
// captured graph contains only the address of the StepHeader, so one graph serves steps with any
// sequence lengths.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Number of positions that an attention kernel processes in one iteration
inline constexpr int32_t kStepPositions = 64;
// Maximum number of attention rows (pairs of token and query head) of a DecodeItem: the number of
// rows of one tensor instruction
inline constexpr int32_t kDecodeRows = 16;
// Maximum number of attention rows (pairs of token and query head) of a PrefillTile
inline constexpr int32_t kPrefillRows = 128;
inline constexpr int32_t kMaxWindows = 4;  // maximum number of different sliding windows in a model

// The data of one token of the step (a batch of prefill and decode). Size: 16 bytes.
struct StepRow {
  int32_t position = 0;
  // Position in the KV pool of the token's key and value: page * page_size + row in the page
  int32_t slot = -1;
  // Index, in the step's array of page numbers, of the first page of the token's sequence
  int32_t table = 0;
  // Length in tokens of the token's sequence, including the tokens of this step
  int32_t length = 0;
};

// Work of a thread block in DecodeAttention: up to 16 attention rows (pairs of token and query
// head), for each kv head, over positions [begin, end). Size: 48 bytes. The rows belong to a part:
// consecutive tokens of one sequence with the same SplitLength. Row r of a part is token r / group
// of the part with query head r % group, where `group` is the number of query heads of a kv head.
struct DecodeItem {
  // Index in the step of the first token of the part (consecutive tokens of one sequence)
  int32_t token = 0;
  // Position in its sequence of the first token of the part (consecutive tokens of one sequence)
  int32_t position = 0;
  int32_t first_row = 0;  // index of the item's first attention row among the rows of its part
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // Positions [begin, end) that the item processes; `begin` is a multiple of 64, or the first
  // position of the sliding window
  int32_t begin = 0, end = 0;
  // split: index of this item among the items with the same attention rows. num_splits: number of
  // these items.
  int32_t split = 0, num_splits = 1;
  // Index in the workspace of the first result for the item's attention rows. The result for row r
  // of split s (the item with index s among the items with the same rows) is stored at index
  // partial + s * num_rows + r.
  int32_t partial = 0;
  int32_t tile = 0;  // index of the counter of finished items that have the same attention rows
  int32_t reserved = 0;
};

// Work of a thread block in PrefillAttention: up to 128 attention rows (pairs of token and query
// head), for each kv head, over all positions that the rows attend to. The rows belong to
// consecutive tokens of one sequence (a part). Size: 32 bytes.
struct PrefillTile {
  // Index in the step of the first token of the part (consecutive tokens of one sequence)
  int32_t token = 0;
  // Position in its sequence of the first token of the part (consecutive tokens of one sequence)
  int32_t position = 0;
  int32_t first_row = 0;  // index of the tile's first attention row among the rows of its part
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // Positions [begin, end) that at least one row of the tile attends to
  int32_t begin = 0, end = 0;
  int32_t split_length = 0;
};

// The attention work of a step for all layers with the same sliding window.
struct AttentionList {
  // num_decode_items: number of DecodeItems. decode_items: offset in bytes of their array from the
  // StepHeader.
  int32_t num_decode_items = 0, decode_items = 0;
  // num_prefill_tiles: number of PrefillTiles. prefill_tiles: offset in bytes of their array from
  // the StepHeader.
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;
};

struct StepHeader {
  int32_t num_tokens = 0;
  int32_t rows = 0;  // offset of StepRow[num_tokens] in bytes from the StepHeader
  // Offset in bytes from the StepHeader of int32_t[], the page tables of all sequences
  int32_t page_tables = 0;
  // Offset in bytes from the StepHeader of int32_t[num_tokens], the tokens in the form that embed.h
  // describes
  int32_t tokens = 0;
  AttentionList lists[kMaxWindows] = {};
};

// Returns the split length for an attention row (token and query head) that attends to `span`
// positions. The positions of the row are divided at multiples of the split length. The sum of each
// split is computed separately, then the sums are added in order. The bits of a row therefore
// depend neither on the other rows nor on the kernel. The split length grows with `span`, so a row
// has at most 33 splits.
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
