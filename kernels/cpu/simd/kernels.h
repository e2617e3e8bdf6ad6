// The inner loops of the CPU backend, once for each instruction set. One table per set is compiled
// in a file of its own, with that set's flags, from the same templates (*.inl); which one runs is
// decided at run time.
//
// Those files must not emit code that others could end up calling: an inline function compiled with
// AVX-512 that the linker picks for everybody would crash an older machine. So they include nothing
// but intrinsics, this header and the templates, which sit in an unnamed namespace; and this header
// holds plain data only.
#pragma once

#include <cstdint>

namespace incipit::simd {

// How keys and values are stored: indices into the tables below, in the order of DType.
inline constexpr int kNumStored = 3;  // f32, f16, bf16
// How the weights of a product are: as those, or in eight bits with a scale for each output.
inline constexpr int kInt8 = kNumStored;
inline constexpr int kNumWeightForms = kNumStored + 1;

// Rows of activations, normalised where a weight is given, in the form that Multiply reads: tiles
// of nearly equal height, at most tile_rows, each [steps][rows of the tile] factors of four bytes.
// A step is cols_per_step columns; those past the last count as zero.
//
// For eight-bit weights a row is rounded to whole numbers from -127 to 127 times its scale, the
// largest magnitude in it over 127, as kernels/quantize.h says.
struct PackRowsArgs {
  const float* x;          // [rows][cols]
  const int32_t* indices;  // [num_rows]: which rows of x; null: the first num_rows
  int64_t num_rows, cols;
  const float* norm_weight;  // [cols], or null
  float epsilon;
  int64_t tile_begin, tile_end;  // which tiles to write
  float* row;                    // [tile_rows][PackedRowFloats(cols)]: working memory
  void* packed;                  // [num_rows * steps] factors
  float* scales;                 // [num_rows], for eight-bit weights
};

// Room for a row of `cols` columns and the rest of a vector.
constexpr int64_t PackedRowFloats(int64_t cols) { return (cols + 15) / 16 * 16 + 16; }

enum class Finish : uint8_t {
  kStore,  // y = W x + bias
  kAdd,    // y += W x + bias
  kSilu,   // y = SiLU(gate) * up with gate | up = W x + bias; panels are of gate and of up in turn
};

// Sums over k of x[r][k] * w[n][k], and what is done with them. Floating-point weights are widened
// and added up in f32 in ascending k, one fused multiplication at a time; eight-bit ones add up in
// whole numbers, and the sum is multiplied by the output's scale, then by the row's. So the bits of
// a row depend on nothing but that row.
struct MultiplyArgs {
  const void* packed;          // from PackRows
  const float* row_scales;     // [num_rows], for eight-bit weights
  const void* panels;          // [panel][steps][panel_width][cols_per_step], the last one padded
  const float* output_scales;  // [panel][panel_width], for eight-bit weights
  const int32_t* starts;       // likewise: what their sums start from
  int64_t num_rows, cols, num_outputs;
  int64_t panel_begin, panel_end;  // which panels; of gate and up only whole pairs
  int64_t group_begin, group_end;  // which groups of rows, of Product::num_groups
  Finish finish;
  const float* bias;  // [num_outputs], or null
  float* y;           // [num_rows][y_stride]
  int64_t y_stride;
};

// Positions that are added up by themselves, then combined in order: what several threads can share
// of one long sequence. Absolute, and the same however many threads there are.
inline constexpr int64_t kSplit = 1024;

// The same for a whole row of sums, as another library's product leaves them: in 32-bit whole
// numbers where there are scales, or else in f32.
struct FinishRowArgs {
  const void* sums;            // [num_outputs]
  const float* output_scales;  // [num_outputs], for eight-bit weights
  float row_scale;             // likewise
  int64_t num_outputs;
  Finish finish;
  const float* bias;  // [num_outputs], or null
  float* y;           // [num_outputs, or half of them]; may be `sums`
};

// The product for one form of weights.
struct Product {
  int32_t panel_width, tile_rows, cols_per_step;
  // Within a step outputs i and i + pair_lanes of each 2 * pair_lanes lie side by side, as far as a
  // panel has so many.
  bool interleaves_pairs;
  // Factors are unsigned, 128 too large: sums start from -128 times the sum of the weights.
  bool offsets_factors;
  // Of as many rows: rows that share what a processor's caches have of a panel.
  int64_t (*num_groups)(int64_t num_rows);
  void (*pack_rows)(const PackRowsArgs& args);
  void (*multiply)(const MultiplyArgs& args);
};

// Where one layer's keys and values of one KV head are. Within a block:
//   keys    [block_size / g][head_dim][g], g = min(16, block_size): g slots side by side
//   values  [block_size][head_dim]
struct KvView {
  const void* data;       // of block 0
  int64_t block_stride;   // elements from one block to the next
  int64_t head_stride;    // elements from one KV head of a block to the next
  const int32_t* blocks;  // the sequence's table
  int32_t block_size, head_dim;
};

// KV heads that one call of `attend` takes: what a block has of them lies together in memory.
inline constexpr int32_t kAttendGroupsMax = 3;

// Causal attention of num_tokens consecutive tokens, for num_groups KV heads, from that of `kv` on,
// with num_heads query heads each.
struct AttendArgs {
  KvView kv;
  const float* query;  // [num_tokens][token_stride], the heads' vectors one after the other
  float* out;          // likewise
  int64_t token_stride;
  int32_t first_position, num_tokens, num_heads, num_groups;
  int32_t window;  // 0: none
  float scale;
  // Those of kSplit positions that have what the tokens see, or some of them; see `states`.
  int32_t split_begin, split_end;
  // attend_scratch_floats(num_groups * (num_tokens * num_heads, rounded up to 16), head_dim)
  float* scratch;
  // Where given, nothing is written to `out`, but what each split adds up to comes here:
  // [split][group][attend_state_floats(num_tokens * num_heads, head_dim)]. All of them, from the
  // first that any of the tokens sees to the last, give attend_combine the result.
  float* states;
};

// Logits in one maximum of `chunk_maxima`.
inline constexpr int64_t kChunk = 64;

struct Kernels {
  const char* name;
  int32_t pair_lanes;
  Product products[kNumWeightForms];
  void (*finish_row)(const FinishRowArgs& args);
  // QuantizeRow of kernels/quantize.h.
  float (*quantize_row)(const float* x, int64_t size, int8_t* numbers);
  // out[i] = NarrowBF16(x[i]) of kernels/numeric.h.
  void (*narrow_row)(const float* x, int64_t size, uint16_t* out);

  int64_t (*attend_scratch_floats)(int64_t num_rows, int64_t head_dim);
  int64_t (*attend_state_floats)(int64_t num_rows, int64_t head_dim);
  // Null for f16, of which there are no pools.
  void (*attend[kNumStored])(const AttendArgs& args);
  void (*attend_combine[kNumStored])(const AttendArgs& args);

  // out = x / sqrt(mean(x^2) + epsilon) * weight; `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t size, float* out);
  // Rotates (head[i], head[half + i]) by the angle with cosine rope[i], sine rope[half + i].
  void (*rotate)(const float* rope, int64_t half, float* head);
  // exp(x) for x up to 88, at most 2 units in the last place off; 2^-126 below -87.3.
  void (*exp)(const float* x, int64_t size, float* out);
  // 2^x for x up to 0, at most 1 unit in the last place off; 2^-126 below -126.
  void (*exp2)(const float* x, int64_t size, float* out);

  // For sampling: exactly as kernels/sampling.h defines, whatever the instruction set.
  // The largest of each kChunk logits, into [(size + kChunk - 1) / kChunk]; false if there is a NaN
  // or +infinity.
  bool (*chunk_maxima)(const float* logits, int64_t size, float* maxima);
  // weights[i] = SamplingExp((logits[i] - max) * inverse_temperature); the sum of their masses.
  // Nothing is written where `weights` is null.
  uint64_t (*weigh)(const float* logits, int64_t size, float max, float inverse_temperature,
                    float* weights);
};

// Compiled for the baseline of the architecture.
const Kernels& PortableKernels();

}  // namespace incipit::simd
