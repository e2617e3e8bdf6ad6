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

// How weights, keys and values are stored: indices into the tables below, in the order of DType.
inline constexpr int kNumStored = 3;  // f32, f16, bf16

// Rows of activations, tiled for Multiply: tiles of nearly equal height, at most tile_rows, each
// [cols][rows of the tile].
struct PackRowsArgs {
  const float* x;  // [num_rows][cols]
  int64_t num_rows, cols;
  int64_t tile_begin, tile_end;  // which tiles to write
  float* packed;                 // [num_rows * cols]
};

// y[r][n] = sum over k of x[r][k] * w[n][k], added up in f32 in ascending k, one fused
// multiplication at a time: the bits of a row depend on nothing but that row.
struct MultiplyArgs {
  const float* packed;  // from PackRows
  const void* panels;   // [panel][cols][panel_width], the last panel padded
  int64_t num_rows, cols, num_outputs;
  int64_t panel_begin, panel_end;  // which panels to multiply
  float* y;                        // [num_rows][y_stride]
  int64_t y_stride;
};

// Positions that are added up by themselves, then combined in order: what several threads can share
// of one long sequence. Absolute, and the same however many threads there are.
inline constexpr int64_t kSplit = 1024;

// Where one layer's keys and values of one KV head are. Within a block:
//   keys    [block_size / g][head_dim][g], g = min(16, block_size): g slots side by side
//   values  [block_size][head_dim]
struct KvView {
  const void* data;       // of block 0
  int64_t block_stride;   // elements from one block to the next
  const int32_t* blocks;  // the sequence's table
  int32_t block_size, head_dim;
};

// Causal attention of num_tokens consecutive tokens, num_heads query heads that share one KV head.
struct AttendArgs {
  KvView kv;
  const float* query;  // [num_tokens][token_stride], the heads' vectors one after the other
  float* out;          // likewise
  int64_t token_stride;
  int32_t first_position, num_tokens, num_heads, window;  // window 0: none
  float scale;
  // Those of kSplit positions that have what the tokens see, or some of them; see `states`.
  int32_t split_begin, split_end;
  float* scratch;  // attend_scratch_floats(num_tokens * num_heads, head_dim)
  // Where given, nothing is written to `out`, but what each split adds up to comes here:
  // [split][attend_state_floats(num_tokens * num_heads, head_dim)]. All of them, from the first
  // that any of the tokens sees to the last, give attend_combine the result.
  float* states;
};

// Logits in one maximum of `chunk_maxima`.
inline constexpr int64_t kChunk = 64;

struct Kernels {
  const char* name;
  int32_t panel_width, tile_rows;
  void (*pack_rows)(const PackRowsArgs& args);
  void (*multiply[kNumStored])(const MultiplyArgs& args);

  int64_t (*attend_scratch_floats)(int64_t num_rows, int64_t head_dim);
  int64_t (*attend_state_floats)(int64_t num_rows, int64_t head_dim);
  void (*attend[kNumStored])(const AttendArgs& args);
  void (*attend_combine[kNumStored])(const AttendArgs& args);

  // out = x / sqrt(mean(x^2) + epsilon) * weight; `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t size, float* out);
  // Rotates (head[i], head[half + i]) by the angle with cosine rope[i], sine rope[half + i].
  void (*rotate)(const float* rope, int64_t half, float* head);
  // out = SiLU(gate) * up; `out` may be either.
  void (*silu_multiply)(const float* gate, const float* up, int64_t size, float* out);
  // y += x.
  void (*add)(const float* x, int64_t size, float* y);
  // exp(x) for x up to 88, at most 2 units in the last place off; 2^-126 below -87.3.
  void (*exp)(const float* x, int64_t size, float* out);

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
