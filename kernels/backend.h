// The interface of one device that computes the operations of a model. Each operation combines
// several computations in one call (for example a norm, a matrix product and a rotation), because
// devices run combined computations faster. kernels/reference defines each operation as plain
// loops.
//
// A step is one call of Upload, then the operations in the order of the model's layers, then one
// call of Synchronize. An operation enqueues its work and returns. Shapes that do not match are
// bugs of the caller and abort the program. Synchronize returns the errors of the device, once per
// step. Only one thread may call a backend.
//
// Each row of a result depends only on the inputs of the same row, bit for bit. The result does not
// change with the other rows of the batch, with their number, or with how a prompt was cut into
// steps.
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

// A block of memory on a backend's device. The backend must outlive the buffer.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t byte_size() const = 0;
};

// A matrix of shape [outputs, inputs], stored in the layout that the backend multiplies fastest.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual size_t byte_size() const = 0;  // bytes of device memory that the matrix occupies
};

enum class WeightRole : uint8_t { kQkv, kOutput, kGateUp, kDown, kHead, kEmbedding };
// The use of a matrix in the model. A backend may choose the layout of a matrix according to its
// use.
struct WeightUse {
  // NOLINTNEXTLINE(google-explicit-constructor): most weights have a role only.
  constexpr WeightUse(WeightRole role, int32_t rotated_head_dim = 0)
      : role(role), rotated_head_dim(rotated_head_dim) {}

  WeightRole role;
  // For a kQkv weight: head_dim if queries and keys have no norm per head before the rotation,
  // otherwise 0. For other weights: 0. If the value is not 0, a backend may store the rows in the
  // order of the rotation.
  // REQUIRES: if the value is not 0, every QkvRopeAppend of this weight has this head_dim and
  // neither `query_norm` nor `key_norm`.
  int32_t rotated_head_dim;
};
// The number format of a stored weight. kInt8 rounds each row of the weight to eight bits with one
// scale per row (kernels/quantize.h). A product with a kInt8 weight rounds each row of activations
// in the same way. An embedding lookup in a kInt8 weight returns the rounded row. An embedding that
// is tied to the head therefore has the same values as the head.
enum class WeightFormat : uint8_t { kAsStored, kInt8 };

struct Shard {  // the part `index` of `count` of a matrix that is split over devices
  int32_t index = 0, count = 1;
};

struct KvPoolShape {
  int32_t num_layers = 0, num_blocks = 0, block_size = 0, num_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kF32;
};

// The keys and values of every block in every layer. The layout is private to the backend.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual const KvPoolShape& shape() const = 0;
};

// Samples one token per entry of `samples`: applies penalties, biases, bans, temperature, top-k,
// top-p and min-p, then samples. Log probabilities are computed from the unchanged logits. All
// backends sample the same token from the same logits (kernels/sampling.h). The samples of a step
// are numbered from 0 over all calls of Sample in the step, in the order of the calls.
struct SampleArgs {
  TensorView logits;                     // shape [rows, vocab], f32
  std::span<const StepSample> samples;   // the field `row` of each sample is not read
  std::span<const int32_t> logits_rows;  // index of a row of `logits`, one per sample
  std::span<TokenId> tokens;             // output, one per sample; -1 if the row is not finite
  std::span<RowStatus> status;           // output, one per sample
  // Output: appends one row for each sample with num_logprobs >= 0, in the order of `samples`.
  Logprobs* logprobs = nullptr;
  // True if `logits` is the unmodified output of this step's last call of Logits. A backend may
  // then reuse the maxima that it stored during that call.
  bool is_latest = false;
};

// The logits that a step computes, as the runner has planned them.
struct StepLogits {
  std::span<const int32_t> rows = {};  // token rows that need logits; ascending, no duplicates
  // The arguments of the only call of Sample in the step. Set only if one call of Logits computes
  // all rows before that Sample; otherwise null. A backend may send these arguments to the device
  // together with the step.
  const SampleArgs* samples = nullptr;
};

struct NormArgs {
  const Buffer* weight = nullptr;  // shape [hidden_size], f32
  float epsilon = 0;
};

// hidden[i] = row tokens[i] of `table`. If tokens[i] is below 0, the row is that of the sampled
// token that tokens[i] stands for (Step in kernels/step.h).
struct EmbedArgs {
  const Weight* table = nullptr;  // shape [vocab, hidden_size]
  TensorView hidden;              // output, shape [num_tokens, hidden_size]
};

// x = RmsNorm(hidden); q|k|v = x * W^T + bias. If given, the norms of queries and keys are applied
// to each head. RoPE then rotates q and k (element i is paired with element i + head_dim / 2). The
// rotated k and the v are stored in the blocks of the sequence.
struct QkvRopeAppendArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  const Weight* qkv = nullptr;   // shape [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  const Buffer* bias = nullptr;  // shape [rows of qkv], f32; or null
  const Buffer* query_norm = nullptr;  // shape [head_dim], f32; or null
  const Buffer* key_norm = nullptr;    // shape [head_dim], f32; or null
  float head_norm_epsilon = 0;
  const Buffer* rope = nullptr;  // f32; per position, head_dim / 2 cosines, then head_dim / 2 sines
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  KvPool* pool = nullptr;
  int32_t layer = 0;
  TensorView query;  // output, shape [num_tokens, num_heads * head_dim]
};

// Causal attention. The token at position p attends to the positions [0, p] of its sequence, which
// are found through the block table. With a window of w positions, the token attends to
// [p - w + 1, p] only. Keys and values are summed in runs whose limits are fixed positions, in
// ascending order.
struct AttentionArgs {
  TensorView query;  // shape [num_tokens, num_heads * head_dim]
  const KvPool* pool = nullptr;
  int32_t layer = 0;
  int32_t num_heads = 0;
  float scale = 0;
  int32_t window = 0;  // in positions; 0: no window
  TensorView out;      // output, shape [num_tokens, num_heads * head_dim]
};

// hidden += x * W^T + bias, for each token row.
struct ProjectAddArgs {
  TensorView x;  // shape [num_tokens, columns of weight]
  const Weight* weight = nullptr;
  const Buffer* bias = nullptr;  // shape [rows of weight], f32; or null
  TensorView hidden;             // input and output, shape [num_tokens, rows of weight]
  // The weight of the RmsNorm of the next operation, or null. A backend may compute part of that
  // norm here. If set, the backend rounds the norm in the same way for every number of tokens in a
  // step.
  // REQUIRES: if set, the next operation is a QkvRopeAppend or GateUpSilu of the same `hidden` in
  // this step.
  const Buffer* next_norm = nullptr;
};

// x = RmsNorm(hidden); gate|up = x * W^T + bias; out = SiLU(gate) * up; for each token row.
struct GateUpSiluArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  // Shape [2 * intermediate_size, hidden_size]: the rows of gate, then those of up.
  const Weight* gate_up = nullptr;
  const Buffer* bias = nullptr;  // shape [2 * intermediate_size], f32; or null
  TensorView out;                // output, shape [num_tokens, intermediate_size]
};

// logits[i] = RmsNorm(hidden[row]) * W^T with row = StepLogits::rows[begin + i], for i in
// [0, count).
struct LogitsArgs {
  TensorView hidden;  // input, shape [num_tokens, hidden_size]
  NormArgs norm;
  const Weight* head = nullptr;  // shape [vocab, hidden_size]
  int32_t begin = 0, count = 0;
  TensorView logits;  // output, shape [count, vocab], f32
};

// Computes the log probability of each given token, and the likeliest tokens of the same row of
// logits.
struct ScoreArgs {
  TensorView logits;                     // shape [rows, vocab], f32
  std::span<const StepScore> scores;     // the field `row` of each score is not read
  std::span<const int32_t> logits_rows;  // index of a row of `logits`, one per score
  std::span<RowStatus> status;           // output, one per score
  Logprobs* logprobs = nullptr;          // output: appends one row per score
};

// The abilities of a backend. The start of the program fails with an error if a model or a flag
// needs something else.
struct BackendLimits {
  std::string name;         // short name for messages
  std::string description;  // text for one line of the log
  // Supported sizes in tokens; empty: any power of two in [1, 256].
  std::vector<int32_t> block_sizes;
  std::vector<DType> weight_dtypes, kv_dtypes;
  std::vector<WeightFormat> weight_formats = {WeightFormat::kAsStored};
  DType hidden_dtype = DType::kF32;      // type of the residual stream
  DType activation_dtype = DType::kF32;  // type of queries, attention output and MLP activations
  int32_t head_dim_multiple = 1;
  // Required divisor of the rows and columns of ProjectAdd weights, and of the MLP's intermediate
  // size.
  int32_t width_multiple = 1;
  int32_t logits_rows = 64;  // recommended maximum number of rows in one call of Logits
};

// The sizes of a model and its cache that determine how much memory a step needs.
struct ModelShape {
  int32_t hidden_size = 0, intermediate_size = 0, vocab_size = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t block_size = 0;
  // Distinct attention windows of the layers, in positions; 0: full attention.
  std::vector<int32_t> windows = {};
};

// Upper bounds of the steps that a runner will request.
struct StepBounds {
  int32_t tokens_max = 0, sequences_max = 0;
  int64_t blocks_max = 0;  // sum over all sequences of a step
  int32_t samples_max = 0;
  ModelShape model = {};  // all 0: unknown, so the first steps may allocate memory
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendLimits limits() const = 0;
  virtual size_t FreeBytes() const = 0;  // bytes that are free for the KV pool
  // Returns the highest rates of the machine, measured with the threads that this backend uses. The
  // measurement takes about half a second. Returns zeros if the backend cannot measure.
  virtual MachineRates MeasureRates() { return {}; }

  // Returns a buffer filled with zeros. Returns RESOURCE_EXHAUSTED, with the requested and the free
  // bytes in the message, if there is not enough memory.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) = 0;
  // Packs matrices that are multiplied together (q|k|v or gate|up) into one weight. The rows of
  // each part follow those of the previous part. Each part may start at any address and must
  // outlive the weight, because a backend may read the part without a copy.
  virtual absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                             WeightUse use, WeightFormat format,
                                                             Shard shard) = 0;
  // Returns a buffer with the parts (norms, biases or RoPE tables), concatenated and widened to
  // f32.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) = 0;

  // Allocates the memory that steps within `bounds` need, so that such steps allocate nothing. A
  // larger step is allowed and allocates more. Returns RESOURCE_EXHAUSTED if there is not enough
  // memory. The step after this call must contain no token below 0, because the samples of the
  // previous step are lost.
  virtual absl::Status Reserve(const StepBounds& bounds) = 0;

  // Begins a step. The arrays of `step` and `logits` must stay valid until Synchronize returns.
  virtual void Upload(const Step& step, const StepLogits& logits) = 0;
  // Enqueues the operations that `enqueue` calls. A backend may record the operations. For a later
  // step with the same `owner` and number of tokens, the backend may replay the recording instead
  // of calling `enqueue`.
  // REQUIRES: the operations and their memory depend only on `owner`, the number of tokens and the
  // arguments of Upload.
  virtual void RunStep(const void* owner, absl::FunctionRef<void()> enqueue) = 0;
  // Records the operations of `enqueue` for each number of tokens up to `tokens_max`, so that no
  // later RunStep has to record. Backends whose RunStep never replays do nothing. The recording
  // uploads and runs `step`, which has one token.
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
