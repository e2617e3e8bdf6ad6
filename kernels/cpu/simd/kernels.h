// Declares the inner loops of the CPU backend. Each instruction set has a table of functions
// (Kernels), and the program selects a table at run time.
//
// The source file of an instruction set includes only intrinsics, this header and templates in an
// unnamed namespace. Otherwise, machines without the instruction set could execute inline functions
// that are compiled for the instruction set.
#pragma once

#include <cstdint>

namespace incipit::simd {

// Number of types in which keys, values and weights may be stored. An array of this size has one
// element for each of f32, f16 and bf16, in the order of DType.
inline constexpr int kNumStored = 3;
// Index of the bf16 weight format in an array of kNumWeightForms elements.
inline constexpr int kBF16Weights = 2;
// Index of the eight-bit weight format in an array of kNumWeightForms elements. The formats f32,
// f16 and bf16 have lower indices.
inline constexpr int kInt8 = kNumStored;
inline constexpr int kNumWeightForms = kNumStored + 1;

// Arguments of pack_rows, which normalises rows of activations (if `norm_weight` is not null) and
// packs the rows for `multiply`. For eight-bit weights, also rounds each row to eight-bit numbers.
// Rows are packed in tiles of at most tile_rows rows. The layout of a tile is [groups of
// cols_per_step columns][rows of the tile], with four bytes per element.
struct PackRowsArgs {
  const float* x;  // shape [rows][cols]
  // Indices of the rows of `x` to pack, of shape [num_rows]; null: the first num_rows rows.
  const int32_t* indices;
  int64_t num_rows, cols;
  const float* norm_weight;  // weight of the RMS norm, of shape [cols]; null: no norm
  float epsilon;
  // pack_rows packs the tiles (groups of tile_rows rows) [tile_begin, tile_end).
  int64_t tile_begin, tile_end;
  float* row;  // working memory of shape [tile_rows][PackedRowFloats(cols)]
  // Output: packed rows, with cols / cols_per_step (rounded up) elements of four bytes per row.
  void* packed;
  // Output, for eight-bit weights only: scale of each row, of shape [num_rows].
  float* scales;
};

// Returns the number of floats of working memory for a row of `cols` columns: `cols` rounded up to
// a multiple of 16, plus 16.
constexpr int64_t PackedRowFloats(int64_t cols) { return (cols + 15) / 16 * 16 + 16; }

// The operation that is applied to the result of the matrix product W x, for weights W and input x.
enum class Finish : uint8_t {
  kStore,  // stores y = W x + bias
  kAdd,    // adds to the output: y += W x + bias
  // Stores y = SiLU(gate) * up, where gate|up = W x + bias. In the packed W, groups of gate rows
  // and groups of up rows alternate.
  kSilu,
};

// Arguments of `multiply`, which computes the sum over k of x[r][k] * w[n][k] for each input row r
// and output n, and then applies `finish`. Floating-point products are added in f32, in ascending
// order of k, except that a dot instruction adds the products of columns 2i + 1 and then 2i.
// Eight-bit products are added as integers.
struct MultiplyArgs {
  const void* packed;  // the input rows, packed by pack_rows
  // For eight-bit weights only: scale of each input row, of shape [num_rows].
  const float* row_scales;
  // Packed weights, of shape [panel][steps][panel_width][cols_per_step]. A panel is a group of
  // panel_width weight rows, and a step is a group of cols_per_step columns.
  const void* panels;
  // For eight-bit weights only: scale of each output, of shape [panel][panel_width].
  const float* output_scales;
  // For eight-bit weights only: number with which the sum of each output begins, of shape
  // [panel][panel_width].
  const int32_t* starts;
  int64_t num_rows, cols, num_outputs;
  // `multiply` uses the panels (groups of weight rows) [panel_begin, panel_end). With kSilu, this
  // range consists of whole pairs of a gate panel and an up panel.
  int64_t panel_begin, panel_end;
  // `multiply` uses the groups of input rows [group_begin, group_end). Product::num_groups returns
  // the number of all groups.
  int64_t group_begin, group_end;
  Finish finish;
  const float* bias;  // bias, shape [num_outputs]; null: no bias
  float* y;           // shape [num_rows][y_stride]
  int64_t y_stride;
};

// Number of positions of a split, a range of a sequence whose attention sums are computed
// separately. The sums of all splits are combined in ascending order.
inline constexpr int64_t kSplit = 1024;

// The functions of the matrix product for one weight format.
struct Product {
  int32_t panel_width, tile_rows, cols_per_step;
  // The number of steps (groups of cols_per_step columns) of a panel and of a packed input row is
  // rounded up to a multiple of this number. The additional columns are zero.
  int32_t steps_multiple;
  // True if each group of 2 * Kernels::pair_lanes weight rows is interleaved: row i + pair_lanes of
  // the group follows row i. False if the rows are stored in ascending order.
  bool interleaves_pairs;
  // True if pack_rows adds 128 to each eight-bit number of an input row, to make the numbers
  // unsigned. The initial values of the sums (`starts`) compensate for this addition.
  bool offsets_factors;
  // True if pack_rows rounds the input rows of a product with floating-point weights to the type of
  // the weights. Rows for eight-bit weights are always rounded to eight-bit numbers.
  bool rounds_activations;
  // Returns the number of groups into which `multiply` divides `num_rows` input rows. For all rows
  // of a group, `multiply` reuses weights that are in the CPU caches.
  int64_t (*num_groups)(int64_t num_rows);
  void (*pack_rows)(const PackRowsArgs& args);
  void (*multiply)(const MultiplyArgs& args);
};

// Addresses of the keys and values of one KV head in one layer. A cache block has block_size
// positions. The layout of its keys is [block_size / g][head_dim][g], where g = min(16,
// block_size). The layout of its values is [block_size][head_dim].
struct KvView {
  const void* data;       // address of the keys of this KV head in cache block 0
  int64_t block_stride;   // distance in elements between consecutive cache blocks
  int64_t head_stride;    // distance in elements between consecutive KV heads of a cache block
  const int32_t* blocks;  // ids of the cache blocks of the sequence, in order of position
  int32_t block_size, head_dim;
};

// Maximum number of KV heads that one call of `attend` computes.
inline constexpr int32_t kAttendGroupsMax = 3;

// Arguments of causal attention for num_tokens consecutive tokens. One call computes num_groups
// consecutive KV heads, beginning with the KV head of `kv`. Each KV head has num_heads query heads.
struct AttendArgs {
  KvView kv;
  // Queries, of shape [num_tokens][token_stride]. The query heads of a token are stored one after
  // the other.
  const float* query;
  float* out;  // output: attention results, in the layout of `query`
  int64_t token_stride;
  int32_t first_position, num_tokens, num_heads, num_groups;
  int32_t window;  // number of positions of the sliding window; 0: no window
  float scale;
  // `attend` computes the splits [split_begin, split_end). Split i is the range of positions [i *
  // kSplit, (i + 1) * kSplit). REQUIRES: if `states` is null, these splits contain all positions
  // that the tokens attend to.
  int32_t split_begin, split_end;
  // Working memory of `attend`: attend_scratch_floats(n, head_dim) floats, where n is num_groups *
  // RoundUp(num_tokens * num_heads, 16).
  float* scratch;
  // Output: the intermediate sums, of shape [split][KV head], with attend_state_floats(num_tokens *
  // num_heads, head_dim) floats per element. Null: not stored. If not null, `attend` does not write
  // `out`, and the caller must call attend_combine later.
  float* states;
};

// Number of logits in a chunk. `chunk_maxima` computes the maximum of each chunk.
inline constexpr int64_t kChunk = 64;

struct Kernels {
  const char* name;
  int32_t pair_lanes;
  Product products[kNumWeightForms];
  // Rounds the row `x` to eight-bit numbers and returns the scale of the row, like QuantizeRow of
  // kernels/quantize.h.
  float (*quantize_row)(const float* x, int64_t size, int8_t* numbers);
  // Rounds a row to bf16: out[i] = NarrowBF16(x[i]) (kernels/numeric.h).
  void (*narrow_row)(const float* x, int64_t size, uint16_t* out);

  int64_t (*attend_scratch_floats)(int64_t num_rows, int64_t head_dim);
  int64_t (*attend_state_floats)(int64_t num_rows, int64_t head_dim);
  // Functions that compute attention. Element i is for keys and values of DType i. The element for
  // f16 is null, because no KV pool stores f16.
  void (*attend[kNumStored])(const AttendArgs& args);
  void (*attend_combine[kNumStored])(const AttendArgs& args);

  // Computes out = x / sqrt(mean(x^2) + epsilon) * weight. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t size, float* out);
  // Rotates the pair (head[i], head[half + i]) for each i in [0, half). The angle has the cosine
  // rope[i] and the sine rope[half + i].
  void (*rotate)(const float* rope, int64_t half, float* head);
  // Computes out[i] = exp(x[i]) for x[i] <= 88, with an error of at most 2 units in the last place.
  // For x[i] < -87.3, the result is 2^-126.
  void (*exp)(const float* x, int64_t size, float* out);
  // Computes out[i] = 2^x[i] for x[i] <= 0, with an error of at most 1 unit in the last place. For
  // x[i] < -126, the result is 2^-126.
  void (*exp2)(const float* x, int64_t size, float* out);

  // Stores the maximum of each chunk of kChunk logits in `maxima`, which has (size + kChunk - 1) /
  // kChunk elements. Returns false if a logit is NaN or +infinity. The bits are the same for all
  // instruction sets (kernels/sampling.h).
  bool (*chunk_maxima)(const float* logits, int64_t size, float* maxima);
  // Computes weights[i] = exp((logits[i] - max) * inverse_temperature) by SamplingExp(). Returns
  // the sum of the weights in fixed point (MassOf). If `weights` is null, only returns the sum. All
  // instruction sets compute the same bits.
  uint64_t (*weigh)(const float* logits, int64_t size, float max, float inverse_temperature,
                    float* weights);
};

// Returns the inner loops that are compiled for the baseline instruction set, which every machine
// of the architecture supports.
const Kernels& PortableKernels();

}  // namespace incipit::simd
