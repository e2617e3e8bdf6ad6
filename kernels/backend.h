// Declares Backend, a device that computes the operations of a model. kernels/reference defines
// each operation as plain loops.
//
// To compute a batch of tokens (a step), the caller calls Upload, then the operations, then
// Synchronize, which returns the errors of the step. An argument with a wrong shape aborts the
// program. Only one thread may call a backend.
//
// The bits of a result row depend only on the inputs of the same row, not on other rows of the
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/machine_rates.h"
#include "kernels/step.h"
#include "kernels/tensor.h"

namespace incipit {

// A range of memory on a backend's device. The backend must outlive the buffer.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t byte_size() const = 0;
};

// A weight matrix of shape [outputs, inputs], stored in the memory layout with which the backend
// computes matrix products fastest.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // Number of bytes of device memory that the matrix occupies.
  virtual size_t byte_size() const = 0;
};

enum class WeightRole : uint8_t { kQkv, kOutput, kGateUp, kDown, kHead, kEmbedding };
// The use of a matrix in the model, for example as output head. A backend may choose the memory
// layout of a matrix by its use.
struct WeightUse {
  // NOLINTNEXTLINE(google-explicit-constructor): a WeightRole converts implicitly to a WeightUse.
  constexpr WeightUse(WeightRole role, int32_t rotated_head_dim = 0)
      : role(role), rotated_head_dim(rotated_head_dim) {}

  WeightRole role;
  // 0, or the number of elements of an attention head. If not 0, the backend may reorder the weight
  // rows of queries, keys and values, so that the matrix product can apply RoPE. Then every
  // QkvRopeAppend with this weight must have heads of this size, and null `query_norm` and
  // `key_norm`.
  int32_t rotated_head_dim;
};
// The number format of a stored weight: the type of the checkpoint, or eight bits with one scale
// per weight row. The activations that are multiplied by a kInt8 weight are also rounded to eight
// bits.
enum class WeightFormat : uint8_t { kAsStored, kInt8 };

// Selects one part of a matrix that is divided into `count` parts, one for each device. `index` is
// the index of the part.
struct Shard {
  int32_t index = 0, count = 1;
};

struct KvPoolShape {
  int32_t num_layers = 0, num_blocks = 0, block_size = 0, num_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kF32;

  // Returns the number of bytes of one cache block: its keys and values in all layers. Every
  // backend stores keys and values without gaps, so the number is the same for every backend.
  size_t block_bytes() const {
    return size_t{2} * static_cast<size_t>(num_layers) * static_cast<size_t>(block_size) *
           static_cast<size_t>(num_kv_heads) * static_cast<size_t>(head_dim) * ByteSize(dtype);
  }
};

// Device memory for the keys and values of every cache block in every layer. Each backend has its
// own memory layout.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual const KvPoolShape& shape() const = 0;
};

// Arguments of Sample, which samples one token for each element of `samples`, by the rules of
// kernels/sampling.h. A step may call Sample several times: the first sample of a call gets the
// number after the last sample of the previous call.
struct SampleArgs {
  TensorView logits;  // logits, shape [rows, vocab], f32
  // One element for each token to sample. The field `row` of the elements is ignored.
  std::span<const StepSample> samples;
  // element i: index of the row of `logits` from which the token for samples[i] is sampled
  std::span<const int32_t> logits_rows;
  // Output: element i is the token sampled for samples[i], or -1 if status[i] is kNonFinite.
  std::span<TokenId> tokens;
  // Output: element i is kNonFinite if samples[i] has a logit that is NaN or +infinity, or if all
  // its logits are -infinity. Otherwise element i is kOk.
  std::span<RowStatus> status;
  // Output: Sample appends one row of log probabilities for each sample with num_logprobs >= 0, in
  // the order of `samples`.
  Logprobs* logprobs = nullptr;
  // True if `logits` is the unchanged result of the latest call of Logits in this step.
  bool is_latest = false;
};

// Selects those tokens of a step for which the operation Logits will compute logits. Also holds the
// arguments of the later call of Sample.
struct StepLogits {
  // Indices in Step::tokens of the tokens whose logits are computed, in ascending order without
  // duplicates.
  std::span<const int32_t> rows = {};
  // The arguments of Sample, or null. If not null, the step calls Logits exactly once, for all
  // `rows`, and then Sample exactly once, with these arguments.
  const SampleArgs* samples = nullptr;
};

struct NormArgs {
  const Buffer* weight = nullptr;  // RMSNorm weight, shape [hidden_size], f32
  float epsilon = 0;
};

// Arguments of Embed, which copies row tokens[i] of `table` to hidden[i] for each token i of the
// step. A token below 0 is a placeholder for a token that the previous step samples (Step in
// kernels/step.h).
struct EmbedArgs {
  const Weight* table = nullptr;  // embedding matrix, shape [vocab, hidden_size]
  TensorView hidden;              // output: hidden state, shape [num_tokens, hidden_size]
};

// Arguments of QkvRopeAppend, which computes RmsNorm(hidden) * W^T + bias, where W is `qkv`. Query
// and key heads are then normalised (if `query_norm` and `key_norm` are not null) and rotated by
// RoPE. Keys and values are stored in the cache blocks of the sequence.
struct QkvRopeAppendArgs {
  TensorView hidden;  // input: hidden state, shape [num_tokens, hidden_size]
  NormArgs norm;
  // Weights that compute queries, keys and values, stacked one below the other. Shape [(num_heads +
  // 2 * num_kv_heads) * head_dim, hidden_size].
  const Weight* qkv = nullptr;
  const Buffer* bias = nullptr;  // bias, shape [rows of qkv], f32; null: no bias
  // RMSNorm weight of query heads, shape [head_dim], f32; null: no norm.
  const Buffer* query_norm = nullptr;
  // RMSNorm weight of key heads, shape [head_dim], f32; null: no norm.
  const Buffer* key_norm = nullptr;
  float head_norm_epsilon = 0;
  // RoPE table: for each position, head_dim / 2 cosines, then head_dim / 2 sines, in f32.
  const Buffer* rope = nullptr;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  KvPool* pool = nullptr;
  int32_t layer = 0;
  TensorView query;  // output: queries, shape [num_tokens, num_heads * head_dim]
};

// Arguments of causal attention. The token at position p attends to the positions [0, p] of its
// sequence, or only to the last `window` of these positions.
struct AttentionArgs {
  TensorView query;  // queries, shape [num_tokens, num_heads * head_dim]
  const KvPool* pool = nullptr;
  int32_t layer = 0;
  int32_t num_heads = 0;
  float scale = 0;
  int32_t window = 0;  // number of positions of the sliding window; 0: no window
  TensorView out;      // output: attention results, shape [num_tokens, num_heads * head_dim]
};

// Arguments of ProjectAdd, which computes hidden += x * W^T + bias, where the matrix W is `weight`.
// `x` and `hidden` have one row for each token.
struct ProjectAddArgs {
  TensorView x;  // input x, shape [num_tokens, number of columns of the weight]
  const Weight* weight = nullptr;
  const Buffer* bias = nullptr;  // bias, shape [number of rows of the weight], f32; null: no bias
  // Input and output: hidden state, shape [num_tokens, number of rows of the weight]
  TensorView hidden;
  // Weight of the RmsNorm that the next operation applies to `hidden`, or null. REQUIRES: if not
  // null, the next operation of the step is a QkvRopeAppend or GateUpSilu of the same `hidden`.
  const Buffer* next_norm = nullptr;
};

// Arguments of GateUpSilu, which computes gate|up = RmsNorm(hidden) * W^T + bias and out =
// SiLU(gate) * up, where W is `gate_up`. `hidden` and `out` have one row for each token.
struct GateUpSiluArgs {
  TensorView hidden;  // input: hidden state, shape [num_tokens, hidden_size]
  NormArgs norm;
  // Weight W, shape [2 * intermediate_size, hidden_size]: the rows of gate, then the rows of up.
  const Weight* gate_up = nullptr;
  const Buffer* bias = nullptr;  // bias, shape [2 * intermediate_size], f32; null: no bias
  TensorView out;                // output: MLP activations, shape [num_tokens, intermediate_size]
};

// Arguments of Logits, which computes logits = RmsNorm(hidden) * W^T for `count` tokens of the
// step, where W is `head`. StepLogits::rows[begin + i] is the index of the token to which row i of
// `logits` belongs.
struct LogitsArgs {
  TensorView hidden;  // input: hidden state, shape [num_tokens, hidden_size]
  NormArgs norm;
  const Weight* head = nullptr;  // output head of the model, shape [vocab, hidden_size]
  int32_t begin = 0, count = 0;
  TensorView logits;  // output: logits, shape [count, vocab], f32
};

// Arguments of Score. For each element of `scores`, Score computes the log probability of one
// prompt token, and the likeliest tokens at its position.
struct ScoreArgs {
  TensorView logits;  // logits, shape [rows, vocab], f32
  // One element for each prompt token to score. The field `row` of the elements is ignored.
  std::span<const StepScore> scores;
  // element i: index of the row of `logits` from which scores[i] is computed
  std::span<const int32_t> logits_rows;
  // Output: element i is kNonFinite if scores[i] has a logit that is NaN or +infinity, or if all
  // its logits are -infinity. Otherwise element i is kOk.
  std::span<RowStatus> status;
  // Output: Score appends one row of log probabilities for each element of `scores`.
  Logprobs* logprobs = nullptr;
};

// The sizes and types that a backend supports. If a model or a flag needs any other size or type,
// the program does not start.
struct BackendLimits {
  std::string name;         // short name of the backend for messages
  std::string description;  // description of the backend for log messages
  // Everything that this backend has chosen at run time and that may change bits of keys and
  // values: the instruction set or the device, and the libraries of matrix products with their
  // versions.
  std::string numerics = {};
  // Supported numbers of tokens per cache block; empty: any power of two in [1, 256].
  std::vector<int32_t> block_sizes;
  std::vector<DType> weight_dtypes, kv_dtypes;
  std::vector<WeightFormat> weight_formats = {WeightFormat::kAsStored};
  DType hidden_dtype = DType::kF32;  // element type of the hidden state (residual stream)
  // Element type of queries, attention output and MLP activations.
  DType activation_dtype = DType::kF32;
  int32_t head_dim_multiple = 1;
  // The MLP's intermediate size, and the numbers of rows and of columns of each ProjectAdd weight,
  // must be multiples of this number.
  int32_t width_multiple = 1;
  // Recommended maximum number of tokens whose logits one call of Logits computes.
  int32_t logits_rows = 64;
};

// Sizes of a model and of its KV cache, from which a backend computes the memory that a step needs.
struct ModelShape {
  int32_t hidden_size = 0, intermediate_size = 0, vocab_size = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t block_size = 0;
  // Distinct sliding-window sizes of the model's layers, in positions; 0: full attention.
  std::vector<int32_t> windows = {};
};

// Upper bounds of the sizes of all steps that a backend will compute.
struct StepBounds {
  int32_t tokens_max = 0, sequences_max = 0;
  int64_t blocks_max = 0;  // maximum number of cache blocks of all sequences of a step together
  int32_t samples_max = 0;
  // Shape of the model. If the shape is unknown (all fields are 0), Reserve allocates only a part
  // of the memory, and the first steps allocate the rest.
  ModelShape model = {};
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendLimits limits() const = 0;
  virtual size_t FreeBytes() const = 0;  // number of bytes that are free for the KV pool
  // Measures the machine's maximum rates of arithmetic operations and of reads from memory, with
  // all threads of this backend. Takes about half a second. Returns zeros if the backend cannot
  // measure.
  virtual MachineRates MeasureRates() { return {}; }

  // Returns a buffer filled with zeros. Returns RESOURCE_EXHAUSTED if there is not enough memory;
  // the message contains the requested bytes and the free bytes.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) = 0;
  // Packs matrices that multiply the same input (query, key and value, or gate and up) into one
  // weight. The weight holds the rows of all matrices in `parts`, in order. The matrices need no
  // alignment. REQUIRES: the memory of `parts` stays valid as long as the weight exists.
  virtual absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                             WeightUse use, WeightFormat format,
                                                             Shard shard) = 0;
  // Converts the tensors in `parts` (norm weights, biases or RoPE tables) to f32. Returns a buffer
  // that holds their elements, one tensor after the other.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) = 0;

  // Allocates the memory for steps within `bounds`, so that these steps allocate nothing. Larger
  // steps allocate more memory. Returns RESOURCE_EXHAUSTED if there is not enough memory. Reserve
  // may discard the tokens that the previous step sampled. REQUIRES: the next step does not use
  // these tokens.
  virtual absl::Status Reserve(const StepBounds& bounds) = 0;

  // Begins a step. The arrays of `step` and `logits` must stay valid until Synchronize returns.
  virtual void Upload(const Step& step, const StepLogits& logits) = 0;
  // Enqueues the operations that `enqueue` calls. `owner` identifies the caller. The backend may
  // record the operations. For a later step with the same `owner` and number of tokens, the backend
  // may replay the recording instead of calling `enqueue`. REQUIRES: the operations and the
  // addresses of their arguments depend only on `owner`, the number of tokens and the arguments of
  // Upload.
  virtual void RunStep(const void* owner, absl::FunctionRef<void()> enqueue) = 0;
  // Prepares RunStep: records the operations of `enqueue` for batches of different sizes, up to
  // `tokens_max` tokens. For the recording, the backend runs the operations on `step`, an example
  // with one token. The default implementation records nothing.
  virtual absl::Status RecordSteps(const void* /*owner*/, int32_t /*tokens_max*/,
                                   const Step& /*step*/, const StepLogits& /*logits*/,
                                   absl::FunctionRef<void()> /*enqueue*/) {
    return absl::OkStatus();
  }
  // Sets the keys and values of whole cache blocks. An operation of a step: a step calls
  // WriteBlocks before CopyBlocks, and both before the first layer. The memory of the writes must
  // stay valid until Synchronize returns. REQUIRES: no step in flight uses the written blocks.
  virtual void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) = 0;
  virtual void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) = 0;
  virtual void Embed(const EmbedArgs& args) = 0;
  virtual void QkvRopeAppend(const QkvRopeAppendArgs& args) = 0;
  virtual void Attention(const AttentionArgs& args) = 0;
  virtual void ProjectAdd(const ProjectAddArgs& args) = 0;
  virtual void GateUpSilu(const GateUpSiluArgs& args) = 0;
  virtual void Logits(const LogitsArgs& args) = 0;
  virtual void Sample(const SampleArgs& args) = 0;
  virtual void Score(const ScoreArgs& args) = 0;
  virtual absl::Status Synchronize() = 0;

  // Returns the number of bytes of one cache block of `pool`, as WriteBlocks and ReadBlocks
  // exchange them: the keys and values of all layers, in the memory layout of the backend.
  static size_t BlockBytes(const KvPool& pool) { return pool.shape().block_bytes(); }
  // Copies the keys and values of `blocks` to `to`, one block after the other. Returns after the
  // copy is complete. Not an operation of a step: the caller may call ReadBlocks between two steps,
  // also while other steps are in flight. REQUIRES: Synchronize has returned for the steps that
  // wrote the blocks, and no step in flight writes them. `to` has BlockBytes() bytes for each
  // block.
  virtual absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                                  std::span<std::byte> to) = 0;
};

}  // namespace incipit
