// The inner loops of the CPU backend, compiled once for each instruction set. Each instruction set
// has a source file of its own that defines a table of functions (Kernels) from shared templates
// (*.inl). The program selects a table at run time.
//
// These source files must not emit code that other files could call. Otherwise the linker could
// choose an inline function with AVX-512 instructions for the whole program, which would crash on
// older machines. The source files therefore include only intrinsics, this header and the
// templates, which are in an unnamed namespace. This header holds plain data only.
#pragma once

#include <cstdint>

namespace incipit::simd {

// Number of types in which keys and values are stored. The types are indices into the tables below,
// in the order of DType.
inline constexpr int kNumStored = 3;  // f32, f16, bf16
// Formats of the weights of a product: one of the stored types, or eight bits with one scale per
// output.
inline constexpr int kInt8 = kNumStored;
inline constexpr int kNumWeightForms = kNumStored + 1;

// Arguments of pack_rows, which converts rows of activations to the layout that `multiply` reads.
// If `norm_weight` is set, the rows are normalised first. The rows are divided into tiles of nearly
// equal height, at most tile_rows. Each tile is stored as [steps][rows of the tile] factors of four
// bytes. A step is cols_per_step columns; columns past the last one count as zero.
//
// For eight-bit weights, a row is rounded to whole numbers in [-127, 127] with a scale of the row's
// largest magnitude / 127 (kernels/quantize.h).
struct PackRowsArgs {
  const float* x;          // shape [rows][cols]
  const int32_t* indices;  // shape [num_rows], rows of x to use; null: the first num_rows
  int64_t num_rows, cols;
  const float* norm_weight;  // shape [cols], or null
  float epsilon;
  int64_t tile_begin, tile_end;  // range [tile_begin, tile_end) of tiles to write
  float* row;                    // working memory, [tile_rows][PackedRowFloats(cols)]
  void* packed;                  // shape [num_rows * steps], packed factors
  float* scales;                 // shape [num_rows], for eight-bit weights
};

// Returns the number of floats of working memory for a row of `cols` columns, rounded up to whole
// vectors.
constexpr int64_t PackedRowFloats(int64_t cols) { return (cols + 15) / 16 * 16 + 16; }

// The operation that is applied to the sums of a product.
enum class Finish : uint8_t {
  kStore,  // y = W x + bias
  kAdd,    // y += W x + bias
  kSilu,   // y = SiLU(gate) * up with gate|up = W x + bias; panels of gate and of up alternate
};

// Arguments of `multiply`, which computes the sums over k of x[r][k] * w[n][k] and applies
// `finish`. Floating-point weights are widened to f32. Their products are added in ascending k,
// with one fused multiply-add each. Products of eight-bit weights are added as whole numbers. Such
// a sum is multiplied by the scale of the output, then by the scale of the row. The bits of a row
// therefore depend only on that row.
struct MultiplyArgs {
  const void* packed;       // rows packed by pack_rows
  const float* row_scales;  // shape [num_rows], for eight-bit weights
  const void* panels;  // shape [panel][steps][panel_width][cols_per_step], the last panel padded
  const float* output_scales;  // shape [panel][panel_width], for eight-bit weights
  // Shape [panel][panel_width], initial values of the sums, for eight-bit weights.
  const int32_t* starts;
  int64_t num_rows, cols, num_outputs;
  // Range [begin, end) of panels; for gate and up, whole pairs only.
  int64_t panel_begin, panel_end;
  // Range [begin, end) of the groups of rows, see Product::num_groups.
  int64_t group_begin, group_end;
  Finish finish;
  const float* bias;  // shape [num_outputs], or null
  float* y;           // shape [num_rows][y_stride]
  int64_t y_stride;
};

// Number of positions of a split. The positions of each split are summed separately, then the
// splits are combined in ascending order, so that several threads can share a long sequence. Splits
// start at multiples of kSplit, independent of the number of threads.
inline constexpr int64_t kSplit = 1024;

// Arguments of finish_row, which applies `finish` to a whole row of sums from another library's
// product. The sums are 32-bit whole numbers if there are scales, otherwise f32.
struct FinishRowArgs {
  const void* sums;            // shape [num_outputs]
  const float* output_scales;  // shape [num_outputs], for eight-bit weights
  float row_scale;             // scale of the row, for eight-bit weights
  int64_t num_outputs;
  Finish finish;
  const float* bias;  // shape [num_outputs], or null
  float* y;           // shape [num_outputs], or half of them for kSilu; may be `sums`
};

// The functions of the matrix product for one format of weights.
struct Product {
  int32_t panel_width, tile_rows, cols_per_step;
  // True if, within a step, the outputs i and i + pair_lanes of each group of 2 * pair_lanes
  // outputs are stored side by side. The rest of a panel that is smaller than such a group is
  // stored in order.
  bool interleaves_pairs;
  // True if the factors are unsigned numbers that are 128 too large. The sums then start from -128
  // times the sum of the weights.
  bool offsets_factors;
  // Returns the number of groups into which `num_rows` rows are divided. The rows of a group share
  // the part of a panel that is in the CPU caches.
  int64_t (*num_groups)(int64_t num_rows);
  void (*pack_rows)(const PackRowsArgs& args);
  void (*multiply)(const MultiplyArgs& args);
};

// The location of the keys and values of one KV head in one layer. The layout within a block is
//   keys    [block_size / g][head_dim][g] with g = min(16, block_size): g slots side by side
//   values  [block_size][head_dim]
struct KvView {
  const void* data;       // keys of this KV head in block 0
  int64_t block_stride;   // number of elements between consecutive blocks
  int64_t head_stride;    // number of elements between consecutive KV heads of a block
  const int32_t* blocks;  // the block table of the sequence
  int32_t block_size, head_dim;
};

// Maximum number of KV heads in one call of `attend`. The KV heads of a block are contiguous in
// memory.
inline constexpr int32_t kAttendGroupsMax = 3;

// Arguments of causal attention for num_tokens consecutive tokens. The call computes num_groups KV
// heads, starting with the KV head of `kv`, with num_heads query heads each.
struct AttendArgs {
  KvView kv;
  // Shape [num_tokens][token_stride], the vectors of the heads one after the other.
  const float* query;
  float* out;  // shape [num_tokens][token_stride], like query
  int64_t token_stride;
  int32_t first_position, num_tokens, num_heads, num_groups;
  int32_t window;  // in positions; 0: no window
  float scale;
  // Range [split_begin, split_end) of the splits (kSplit positions each) to compute. If `states` is
  // null, the range must contain all positions that the tokens attend to.
  int32_t split_begin, split_end;
  // Working memory; the number of floats is attend_scratch_floats(num_groups * RoundUp(num_tokens *
  // num_heads, 16), head_dim).
  float* scratch;
  // If not null, the sums of each split are stored here, and nothing is written to `out`. The
  // layout is [split][group][attend_state_floats(num_tokens * num_heads, head_dim)]. attend_combine
  // computes `out` from the sums of all splits that the tokens attend to.
  float* states;
};

// Number of logits whose maximum is one result of `chunk_maxima`.
inline constexpr int64_t kChunk = 64;

struct Kernels {
  const char* name;
  int32_t pair_lanes;
  Product products[kNumWeightForms];
  void (*finish_row)(const FinishRowArgs& args);
  // Same as QuantizeRow of kernels/quantize.h.
  float (*quantize_row)(const float* x, int64_t size, int8_t* numbers);
  // Computes out[i] = NarrowBF16(x[i]) (kernels/numeric.h).
  void (*narrow_row)(const float* x, int64_t size, uint16_t* out);

  int64_t (*attend_scratch_floats)(int64_t num_rows, int64_t head_dim);
  int64_t (*attend_state_floats)(int64_t num_rows, int64_t head_dim);
  // Attention for each type of pool. Null for f16, because no KV pool stores f16.
  void (*attend[kNumStored])(const AttendArgs& args);
  void (*attend_combine[kNumStored])(const AttendArgs& args);

  // Computes out = x / sqrt(mean(x^2) + epsilon) * weight. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t size, float* out);
  // Rotates the pair (head[i], head[half + i]) by the angle with the cosine rope[i] and the sine
  // rope[half + i].
  void (*rotate)(const float* rope, int64_t half, float* head);
  // Computes exp(x) for x <= 88 with an error of at most 2 units in the last place; 2^-126 for x
  // below -87.3.
  void (*exp)(const float* x, int64_t size, float* out);
  // Computes 2^x for x <= 0 with an error of at most 1 unit in the last place; 2^-126 for x below
  // -126.
  void (*exp2)(const float* x, int64_t size, float* out);

  // Stores the largest of each kChunk logits in `maxima`, which has (size + kChunk - 1) / kChunk
  // elements. Returns false if a logit is NaN or +infinity. All instruction sets compute the same
  // bits (kernels/sampling.h).
  bool (*chunk_maxima)(const float* logits, int64_t size, float* maxima);
  // Computes weights[i] = SamplingExp((logits[i] - max) * inverse_temperature) and returns the sum
  // of the weights' masses. Writes no weights if `weights` is null. All instruction sets compute
  // the same bits (kernels/sampling.h).
  uint64_t (*weigh)(const float* logits, int64_t size, float max, float inverse_temperature,
                    float* weights);
};

// Returns the inner loops that are compiled for the baseline of the architecture.
const Kernels& PortableKernels();

}  // namespace incipit::simd
