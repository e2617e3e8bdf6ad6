// Declares the interface of a device that computes the operations of a model. Each operation
// combines several computations (for example a norm, a matrix product and a rotation), because
// devices run combined computations faster. kernels/reference defines each operation as plain
// loops.
//
// A step is one call of Upload, then the operations in the order of the model's layers, then one
// call of Synchronize. An operation enqueues its work and returns. An argument with a wrong shape
// is a bug of the caller and aborts the program. Synchronize returns the errors of the device, once
// per step. Only one thread may call a backend.
//
// The bits of each row of a result depend only on the inputs of the same row. The bits do not
// change with the other rows of the batch, with the number of rows, or with the division of a
// prompt into steps.
#pragma once

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

// A matrix of shape [outputs, inputs], in the memory layout that the backend multiplies fastest.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // Number of bytes of device memory that the matrix occupies.
  virtual size_t byte_size() const = 0;
};

enum class WeightRole : uint8_t { kQkv, kOutput, kGateUp, kDown, kHead, kEmbedding };
// The use of a matrix in the model. A backend may choose the memory layout of a matrix by its use.
struct WeightUse {
  // NOLINTNEXTLINE(google-explicit-constructor): most weights have a role only.
  constexpr WeightUse(WeightRole role, int32_t rotated_head_dim = 0)
      : role(role), rotated_head_dim(rotated_head_dim) {}

  WeightRole role;
  // For the weight of queries, keys and values (kQkv): head_dim if query and key heads are rotated
  // without a norm before, otherwise 0. For other weights: 0. If the value is not 0, a backend may
  // store the rows in the order of the rotation.
  // REQUIRES: if the value is not 0, every QkvRopeAppend of this weight has this head_dim, and its
  // `query_norm` and `key_norm` are null.
  int32_t rotated_head_dim;
};
// The number format of a stored weight. kInt8 rounds each row of the weight to eight bits with one
// scale per row (kernels/quantize.h). A product with a kInt8 weight rounds each row of activations
// in the same way. An embedding lookup in a kInt8 weight returns the rounded row. An embedding that
// shares its tensor with the head therefore has the same values as the head.
enum class WeightFormat : uint8_t { kAsStored, kInt8 };

// Part `index` of a matrix that is divided into `count` parts, one for each device.
struct Shard {
  int32_t index = 0, count = 1;
};

struct KvPoolShape {
  int32_t num_layers = 0, num_blocks = 0, block_size = 0, num_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kF32;
};

// Device memory for the keys and values of every cache block in every layer. Each backend has its
// own layout.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual const KvPoolShape& shape() const = 0;
};

// Arguments of Sample, which samples one token for each element of `samples`. Sample applies
// penalties, biases, bans, temperature, top-k, top-p and min-p. Log probabilities are computed from
// the unchanged logits. All backends sample the same token from the same logits
// (kernels/sampling.h). The samples of a step are numbered from 0 over all calls of Sample in the
// step, in the order of the calls.
struct SampleArgs {
  TensorView logits;                     // shape [rows, vocab], f32
  std::span<const StepSample> samples;   // the field `row` of each sample is ignored
  std::span<const int32_t> logits_rows;  // element i: the row of `logits` for sample i
  // Output: element i is the token of sample i, or -1 if its row of logits is not finite.
  std::span<TokenId> tokens;
  std::span<RowStatus> status;  // output: element i is the status of sample i
  // Output: one row of log probabilities is appended for each sample with num_logprobs >= 0, in the
  // order of `samples`.
  Logprobs* logprobs = nullptr;
  // True if `logits` is the unmodified output of the latest call of Logits in this step. A backend
  // may then reuse the maxima that it stored during that call.
  bool is_latest = false;
};

// The token rows of a step for which logits are computed, and the samples, as the runner has
// planned them.
struct StepLogits {
  // Indices of the token rows that need logits, in ascending order without duplicates.
  std::span<const int32_t> rows = {};
  // The arguments of Sample, or null. Not null only if the step has a single call of Sample, and
  // one call of Logits computes all rows before. A backend may copy these arguments to the device
  // together with the step.
  const SampleArgs* samples = nullptr;
};

struct NormArgs {
  const Buffer* weight = nullptr;  // shape [hidden_size], f32
  float epsilon = 0;
};

// Arguments of Embed, which computes hidden[i] = row tokens[i] of `table` for each token of the
// step. A token below 0 is a placeholder for a sampled token (Step in kernels/step.h).
struct EmbedArgs {
  const Weight* table = nullptr;  // shape [vocab, hidden_size]
  TensorView hidden;              // output, shape [num_tokens, hidden_size]
};

// Arguments of QkvRopeAppend, which computes x = RmsNorm(hidden) and q|k|v = x * W^T + bias. If
// `query_norm` and `key_norm` are not null, these norms are applied to each query and key head.
// RoPE then rotates q and k (element i of a head is paired with element i + head_dim / 2). The
// rotated k and the v are stored in the cache blocks of the sequence.
struct QkvRopeAppendArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  // Shape [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size].
  const Weight* qkv = nullptr;
  const Buffer* bias = nullptr;        // shape [rows of qkv], f32; null: no bias
  const Buffer* query_norm = nullptr;  // shape [head_dim], f32; null: no norm of queries
  const Buffer* key_norm = nullptr;    // shape [head_dim], f32; null: no norm of keys
  float head_norm_epsilon = 0;
  // For each position, head_dim / 2 cosines, then head_dim / 2 sines, in f32.
  const Buffer* rope = nullptr;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  KvPool* pool = nullptr;
  int32_t layer = 0;
  TensorView query;  // output, shape [num_tokens, num_heads * head_dim]
};

// Arguments of causal attention. The token at position p attends to the positions [0, p] of its
// sequence. With a window of w positions, the token attends to [p - w + 1, p] only. The block table
// contains the cache block of each position. Sums are computed separately for fixed ranges of
// positions, which are then combined in ascending order.
struct AttentionArgs {
  TensorView query;  // shape [num_tokens, num_heads * head_dim]
  const KvPool* pool = nullptr;
  int32_t layer = 0;
  int32_t num_heads = 0;
  float scale = 0;
  int32_t window = 0;  // number of positions of the sliding window; 0: no window
  TensorView out;      // output, shape [num_tokens, num_heads * head_dim]
};

// Arguments of ProjectAdd, which computes hidden += x * W^T + bias for each token row. W is
// `weight`.
struct ProjectAddArgs {
  TensorView x;  // shape [num_tokens, columns of weight]
  const Weight* weight = nullptr;
  const Buffer* bias = nullptr;  // shape [rows of weight], f32; null: no bias
  TensorView hidden;             // input and output, shape [num_tokens, rows of weight]
  // The weight of the RmsNorm of the next operation, or null. If not null, a backend may compute a
  // part of this norm during ProjectAdd, and rounds the norm in the same way for every number of
  // tokens in a step.
  // REQUIRES: if not null, the next operation is a QkvRopeAppend or GateUpSilu of the same `hidden`
  // in this step.
  const Buffer* next_norm = nullptr;
};

// Arguments of GateUpSilu, which computes x = RmsNorm(hidden), gate|up = x * W^T + bias, and out =
// SiLU(gate) * up for each token row. W is `gate_up`.
struct GateUpSiluArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  // Shape [2 * intermediate_size, hidden_size]: the rows of gate, then the rows of up.
  const Weight* gate_up = nullptr;
  const Buffer* bias = nullptr;  // shape [2 * intermediate_size], f32; null: no bias
  TensorView out;                // output, shape [num_tokens, intermediate_size]
};

// Arguments of Logits, which computes logits[i] = RmsNorm(hidden[row]) * W^T for each i in [0,
// count), with row = StepLogits::rows[begin + i]. W is `head`.
struct LogitsArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  const Weight* head = nullptr;  // shape [vocab, hidden_size]
  int32_t begin = 0, count = 0;
  TensorView logits;  // output, shape [count, vocab], f32
};

// Arguments of Score, which computes the log probability of the target token of each score, and the
// likeliest tokens of the same row of logits.
struct ScoreArgs {
  TensorView logits;                     // shape [rows, vocab], f32
  std::span<const StepScore> scores;     // the field `row` of each score is ignored
  std::span<const int32_t> logits_rows;  // element i: the row of `logits` for score i
  std::span<RowStatus> status;           // output: element i is the status of score i
  Logprobs* logprobs = nullptr;          // output: one row per score is appended
};

// The sizes and types that a backend supports. The program does not start if a model or a flag
// needs a size or type that the backend does not support.
struct BackendLimits {
  std::string name;         // short name of the backend for messages
  std::string description;  // description of the backend for one line of the log
  // Supported numbers of tokens per cache block; empty: any power of two in [1, 256].
  std::vector<int32_t> block_sizes;
  std::vector<DType> weight_dtypes, kv_dtypes;
  std::vector<WeightFormat> weight_formats = {WeightFormat::kAsStored};
  DType hidden_dtype = DType::kF32;      // type of the residual stream
  DType activation_dtype = DType::kF32;  // type of queries, attention output and MLP activations
  int32_t head_dim_multiple = 1;
  // The number of rows and columns of each ProjectAdd weight, and the MLP's intermediate size, must
  // be a multiple of this number.
  int32_t width_multiple = 1;
  int32_t logits_rows = 64;  // recommended maximum number of rows in one call of Logits
};

// The sizes of a model and its cache that determine the memory that a step needs.
struct ModelShape {
  int32_t hidden_size = 0, intermediate_size = 0, vocab_size = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t block_size = 0;
  // Different attention windows of the layers, as numbers of positions; 0: full attention.
  std::vector<int32_t> windows = {};
};

// Upper bounds of the steps that a runner will pass to a backend.
struct StepBounds {
  int32_t tokens_max = 0, sequences_max = 0;
  int64_t blocks_max = 0;  // number of cache blocks of all sequences of a step together
  int32_t samples_max = 0;
  ModelShape model = {};  // all 0: the sizes are unknown, so the first steps may allocate memory
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendLimits limits() const = 0;
  virtual size_t FreeBytes() const = 0;  // number of bytes that are free for the KV pool
  // Measures and returns the maximum rates of the machine, with the threads that this backend uses.
  // The measurement takes about half a second. Returns zeros if the backend cannot measure.
  virtual MachineRates MeasureRates() { return {}; }

  // Returns a buffer filled with zeros. Returns RESOURCE_EXHAUSTED if there is not enough memory;
  // the message contains the requested bytes and the free bytes.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) = 0;
  // Packs matrices that are multiplied together (q|k|v or gate|up) into one weight. The rows of
  // each part follow the rows of the previous part. Each part may start at any address. Each part
  // must outlive the weight, because a backend may read the part without a copy.
  virtual absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                             WeightUse use, WeightFormat format,
                                                             Shard shard) = 0;
  // Returns a buffer with all elements of the parts (norms, biases or RoPE tables), one part after
  // the other, converted to f32.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) = 0;

  // Allocates the memory for steps within `bounds`, so that these steps allocate nothing. A larger
  // step is allowed and allocates more memory. Returns RESOURCE_EXHAUSTED if there is not enough
  // memory. The next step must contain no placeholder for a sampled token, because Reserve discards
  // the samples of the previous step.
  virtual absl::Status Reserve(const StepBounds& bounds) = 0;

  // Begins a step. The arrays of `step` and `logits` must stay valid until Synchronize returns.
  virtual void Upload(const Step& step, const StepLogits& logits) = 0;
  // Enqueues the operations that `enqueue` calls. A backend may record these operations. For a
  // later step with the same `owner` and number of tokens, the backend may replay the recorded
  // operations instead of calling `enqueue`.
  // REQUIRES: the operations and their memory depend only on `owner`, the number of tokens and the
  // arguments of Upload.
  virtual void RunStep(const void* owner, absl::FunctionRef<void()> enqueue) = 0;
  // Records the operations of `enqueue` for each number of tokens in [1, tokens_max], so that no
  // later RunStep has to record operations. Does nothing if the backend never replays operations.
  // The recording uploads and runs `step`, which has one token.
  virtual absl::Status RecordSteps(const void* /*owner*/, int32_t /*tokens_max*/,
                                   const Step& /*step*/, const StepLogits& /*logits*/,
                                   absl::FunctionRef<void()> /*enqueue*/) {
    return absl::OkStatus();
  }
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
};

}  // namespace incipit
