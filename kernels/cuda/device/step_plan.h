// The plan of a step (a batch of prefill and decode) that the kernels read: one memory range that
// begins with a StepHeader. The host builds the plan (attention_plan.h) and copies the plan to the
// device. All offsets in the plan are in bytes from the start of the StepHeader. A recorded CUDA
// graph contains only the address of the StepHeader, so each replay may have another plan.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Number of positions that an attention kernel processes in one iteration
inline constexpr int32_t kStepPositions = 64;
// Maximum number of attention rows (pairs of token and query head) of a work item in decode
// attention: the number of rows of one tensor instruction
inline constexpr int32_t kDecodeRows = 16;
// Maximum number of attention rows (pairs of token and query head) of a work item in prefill
// attention
inline constexpr int32_t kPrefillRows = 128;
inline constexpr int32_t kMaxWindows = 4;  // maximum number of different sliding windows in a model

// The data of one token of the step (a batch of prefill and decode). Size: 16 bytes.
struct StepRow {
  int32_t position = 0;
  // Place of the token's key and value in the KV pool: page number * page_size + index of the token
  // in the page
  int32_t slot = -1;
  // Index, in the step's array of page numbers, of the first page of the token's sequence
  int32_t table = 0;
  // Length in tokens of the token's sequence, including the tokens of this step
  int32_t length = 0;
};

// Work of a thread block in DecodeAttention: up to 16 attention rows (pairs of token and query
// head) over positions [begin, end), for each kv head. Size: 48 bytes.
//
// The rows belong to a part: consecutive tokens of one sequence with the same split length
// (SplitLength). Row r of a part is token r / group of the part and query head r % group of the kv
// head; a kv head has `group` query heads.
struct DecodeItem {
  // Index, among the tokens of the step, of the first token of the part (consecutive tokens of one
  // sequence)
  int32_t token = 0;
  // Position, in the sequence, of the first token of the part (consecutive tokens of one sequence)
  int32_t position = 0;
  // Index of the item's first attention row (pair of token and query head) in the part (consecutive
  // tokens of one sequence)
  int32_t first_row = 0;
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // Positions [begin, end) that the item processes. `begin` is a multiple of 64, or the first
  // position in the sliding window.
  int32_t begin = 0, end = 0;
  // split: index of this item among the items that process the same tokens and query heads.
  // num_splits: number of these items.
  int32_t split = 0, num_splits = 1;
  // Index in the workspace for the results of the item's rows. The result for row r is at index
  // partial + split * num_rows + r.
  int32_t partial = 0;
  // Index of a counter of finished items. Items that process the same tokens and query heads share
  // a counter.
  int32_t tile = 0;
  int32_t reserved = 0;
};

// Work of a thread block in PrefillAttention: up to 128 attention rows (pairs of token and query
// head) and all positions that they attend to, for each kv head. The rows belong to a part:
// consecutive tokens of one sequence. Size: 32 bytes.
struct PrefillTile {
  // Index, among the tokens of the step, of the first token of the part (consecutive tokens of one
  // sequence)
  int32_t token = 0;
  // Position, in the sequence, of the first token of the part (consecutive tokens of one sequence)
  int32_t position = 0;
  // Index of the tile's first attention row (pair of token and query head) in the part (consecutive
  // tokens of one sequence)
  int32_t first_row = 0;
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // Positions [begin, end) that at least one row of the tile attends to
  int32_t begin = 0, end = 0;
  int32_t split_length = 0;
};

// Work items of the attention of a step, for all layers with the same sliding window.
struct AttentionList {
  // num_decode_items: number of decode work items (DecodeItem). decode_items: offset in bytes of
  // the array of items from the StepHeader.
  int32_t num_decode_items = 0, decode_items = 0;
  // num_prefill_tiles: number of prefill work items (PrefillTile). prefill_tiles: offset in bytes
  // of the array of items from the StepHeader.
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;
};

struct StepHeader {
  int32_t num_tokens = 0;
  int32_t rows = 0;  // offset of StepRow[num_tokens] in bytes from the StepHeader
  // Offset in bytes from the StepHeader of int32_t[], the page tables of all sequences
  int32_t page_tables = 0;
  // Offset in bytes from the StepHeader of int32_t[num_tokens], the token ids; embed.h explains
  // negative ids
  int32_t tokens = 0;
  AttentionList lists[kMaxWindows] = {};
};

// Returns the split length for an attention row (pair of token and query head) that attends to
// `span` positions. Every kernel divides the positions at multiples of the split length and sums
// each split separately, so a row has the same bits in every kernel. A row has at most 33 splits.
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
