// Input data of the kernels for one step (a batch of prefill and decode), in one memory range that
// begins with a StepHeader. The host builds the data and copies them to the device. A CUDA graph
// contains only the address of the StepHeader, so each replay can process another step.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Number of positions of a sequence that an attention kernel processes in one loop iteration
inline constexpr int32_t kStepPositions = 64;
// Maximum number of (token, query head) pairs in one work item of kernel DecodeAttention
inline constexpr int32_t kDecodeRows = 16;
// Maximum number of (token, query head) pairs in one work item of kernel PrefillAttention
inline constexpr int32_t kPrefillRows = 128;
// maximum number of different sliding-window lengths among the layers of a model
inline constexpr int32_t kMaxWindows = 4;

// One token of the step (a batch of prefill and decode). Size: 16 bytes.
struct StepRow {
  int32_t position = 0;
  // Index in the KV cache of the slot for this token (the memory for its key and its value): page
  // number * page_size + index of the token in the page
  int32_t slot = -1;
  // Index, in the step's array of page numbers, of the first page of the token's sequence
  int32_t table = 0;
  // Number of tokens in the token's sequence, including the tokens of this step (batch)
  int32_t length = 0;
};

// Work item of the kernel DecodeAttention, which computes each item once per kv head. For one kv
// head, up to 16 pairs (token, query head) attend to the positions [begin, end) of a sequence.
// Size: 48 bytes.
struct DecodeItem {
  // Index, in the step (batch), of the token to which attention row 0 belongs. An attention row is
  // a pair of token and query head.
  int32_t token = 0;
  // Position, in its sequence, of the token at index `token`
  int32_t position = 0;
  // Index of the item's first attention row. An attention row is a pair of token and query head.
  // The rows are sorted by token, then by query head.
  int32_t first_row = 0;
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // The tokens of this work item attend to the positions [begin, end) of the sequence. `begin` is a
  // multiple of 64, or the first position in the sliding window.
  int32_t begin = 0, end = 0;
  // The work for some tokens and query heads may be divided into `num_splits` items, each with
  // another range of positions. `split` is the index of this item among these items.
  int32_t split = 0, num_splits = 1;
  // If num_splits > 1: index in the memory for partial results at which the work item with split =
  // 0 stores its first result. The results of the items with split = 1, 2, ... follow.
  int32_t partial = 0;
  // Index of the counter that counts the finished items with the same tokens and query heads as
  // this item.
  int32_t tile = 0;
  int32_t reserved = 0;
};

// Work item of the kernel PrefillAttention, which computes each item once per kv head. For one kv
// head, up to 128 pairs (token, query head) attend to the positions [begin, end) of a sequence.
// Size: 32 bytes.
struct PrefillTile {
  // Index, in the step (batch), of the token to which attention row 0 belongs. An attention row is
  // a pair of token and query head.
  int32_t token = 0;
  // Position, in its sequence, of the token at index `token`
  int32_t position = 0;
  // Index of the tile's first attention row. An attention row is a pair of token and query head.
  // The rows are sorted by token, then by query head.
  int32_t first_row = 0;
  int32_t num_rows = 0;
  // Index, in the step's array of page numbers, of the first page of the sequence
  int32_t table = 0;
  // Positions [begin, end) of the sequence that at least one token of the tile attends to
  int32_t begin = 0, end = 0;
  int32_t split_length = 0;
};

// Work items of the attention kernels for one step (batch), for all layers with the same
// sliding-window size.
struct AttentionList {
  // number of DecodeItems, and byte offset of their array from the start of the StepHeader
  int32_t num_decode_items = 0, decode_items = 0;
  // number of PrefillTiles, and byte offset of their array from the start of the StepHeader
  int32_t num_prefill_tiles = 0, prefill_tiles = 0;
};

struct StepHeader {
  int32_t num_tokens = 0;
  // Byte offset, from the start of this header, of an array of num_tokens StepRows
  int32_t rows = 0;
  // byte offset, from the start of this header, of the page numbers (int32_t) of all sequences
  int32_t page_tables = 0;
  // byte offset, from the start of this header, of the token ids (int32_t); embed.h explains
  // negative ids
  int32_t tokens = 0;
  AttentionList lists[kMaxWindows] = {};
};

// Returns the number of positions in each split (a range of positions that attention sums
// separately), for a token that attends to `span` positions. All kernels use the same splits, so
// that their results have the same bits.
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
