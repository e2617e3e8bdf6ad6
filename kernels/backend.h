// One device that does a model's arithmetic. The operations are the fused ones, because that is
// what devices want; kernels/reference defines each of them as loops.
//
// A step is: Upload, then the operations in the order of the model's layers, then Synchronize. An
// operation enqueues and returns; shapes that do not match are our bugs and abort; what the device
// reports comes from Synchronize, once per step. One thread drives a backend.
//
// A row of any result depends only on that row's own inputs, bit for bit: not on the other rows of
// the batch, their number, or how a prompt was cut into steps.
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

// Memory on a backend. The backend must outlive it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t byte_size() const = 0;
};

// A matrix [rows = outputs, cols = inputs] in the form in which its backend multiplies fastest.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual size_t byte_size() const = 0;  // what it takes on the device
};

enum class WeightRole : uint8_t { kQkv, kOutput, kGateUp, kDown, kHead, kEmbedding };
// What a matrix is for.
struct WeightUse {
  // NOLINTNEXTLINE(google-explicit-constructor): most have nothing but a role.
  constexpr WeightUse(WeightRole role, int32_t rotated_head_dim = 0)
      : role(role), rotated_head_dim(rotated_head_dim) {}

  WeightRole role;
  // Of a kQkv: head_dim, if queries and keys are rotated as they come, without a norm of their own;
  // 0: they may have one. A backend may store the rows in the order in which they are rotated.
  // REQUIRES: every QkvRopeAppend of this weight has that head_dim, and neither norm.
  int32_t rotated_head_dim;
};
// kInt8: each row rounded to eight bits with a scale (kernels/quantize.h), and so is each row of
// activations that it is multiplied with. What is gathered from an embedding of that format is the
// rounded row, as of the head that it may be tied to.
enum class WeightFormat : uint8_t { kAsStored, kInt8 };

struct Shard {  // of a matrix split over devices
  int32_t index = 0, count = 1;
};

struct KvPoolShape {
  int32_t num_layers = 0, num_blocks = 0, block_size = 0, num_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kF32;
};

// The keys and values of every block of every layer, in a layout that is the backend's own.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual const KvPoolShape& shape() const = 0;
};

// Penalties, bias, ban, temperature, top-k, top-p, min-p, sample; log probabilities of the
// untouched logits. Equal logits give equal tokens on every backend: see kernels/sampling.h. The
// samples of a step are numbered over all its calls of Sample, in order.
struct SampleArgs {
  TensorView logits;                     // f32 [rows, vocab]
  std::span<const StepSample> samples;   // their token rows are not read
  std::span<const int32_t> logits_rows;  // per sample: its row of `logits`
  std::span<TokenId> tokens;             // out: per sample; -1 if its row is not finite
  std::span<RowStatus> status;           // out: per sample
  Logprobs* logprobs = nullptr;  // appended to, for samples with num_logprobs >= 0, in order
  // `logits` is the unmodified output of this step's last Logits; a backend may reuse the maxima
  // that it noted there.
  bool is_latest = false;
};

// The logits of a step, as its runner has planned them.
struct StepLogits {
  std::span<const int32_t> rows = {};  // token rows whose logits are computed, ascending, each once
  // The arguments of the step's first and only Sample, if one Logits computes all rows before it;
  // or none. A backend may send them to its device with the step.
  const SampleArgs* samples = nullptr;
};

struct NormArgs {
  const Buffer* weight = nullptr;  // f32 [hidden]
  float epsilon = 0;
};

// hidden[i] = table[tokens[i]], or table of the sampled token that tokens[i] stands for.
struct EmbedArgs {
  const Weight* table = nullptr;  // [vocab, hidden]
  TensorView hidden;              // [num_tokens, hidden]
};

// x = RmsNorm(hidden); q|k|v = x * W^T + bias; QK norm per head where given; RoPE on q and k
// (rotated halves); k and v into their blocks.
struct QkvRopeAppendArgs {
  TensorView hidden;  // [num_tokens, hidden]
  NormArgs norm;
  const Weight* qkv = nullptr;         // [(num_heads + 2 * num_kv_heads) * head_dim, hidden]
  const Buffer* bias = nullptr;        // f32 [rows of qkv], or none
  const Buffer* query_norm = nullptr;  // f32 [head_dim], or none
  const Buffer* key_norm = nullptr;    // f32 [head_dim], or none
  float head_norm_epsilon = 0;
  const Buffer* rope = nullptr;  // f32 [max positions][cos: head_dim / 2 | sin: head_dim / 2]
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  KvPool* pool = nullptr;
  int32_t layer = 0;
  TensorView query;  // out: [num_tokens, num_heads * head_dim]
};

// Causal attention of each row over its sequence's positions 0 .. its own, through the block table.
// With a window w, only positions > own - w. Accumulated over absolute runs of positions in order.
struct AttentionArgs {
  TensorView query;  // [num_tokens, num_heads * head_dim]
  const KvPool* pool = nullptr;
  int32_t layer = 0;
  int32_t num_heads = 0;
  float scale = 0;
  int32_t window = 0;  // 0: none
  TensorView out;      // [num_tokens, num_heads * head_dim]
};

// hidden += x * W^T + bias.
struct ProjectAddArgs {
  TensorView x;  // [num_tokens, cols of weight]
  const Weight* weight = nullptr;
  const Buffer* bias = nullptr;  // f32 [rows of weight], or none
  TensorView hidden;             // in and out: [num_tokens, rows of weight]
  // The weight of the norm of the operation that comes next, or none. REQUIRES: that is a
  // QkvRopeAppend or GateUpSilu of this hidden in this step. A backend may begin its norm here, and
  // then rounds the same in a step of any size.
  const Buffer* next_norm = nullptr;
};

// x = RmsNorm(hidden); gate|up = x * W^T + bias; out = SiLU(gate) * up.
struct GateUpSiluArgs {
  TensorView hidden;  // [num_tokens, hidden]
  NormArgs norm;
  const Weight* gate_up = nullptr;  // [2 * intermediate, hidden]: gate's rows, then up's
  const Buffer* bias = nullptr;     // f32 [2 * intermediate], or none
  TensorView out;                   // [num_tokens, intermediate]
};

// RmsNorm(hidden[row]) * W^T for token rows StepLogits::rows[begin .. begin + count).
struct LogitsArgs {
  TensorView hidden;  // [num_tokens, hidden]
  NormArgs norm;
  const Weight* head = nullptr;  // [vocab, hidden]
  int32_t begin = 0, count = 0;
  TensorView logits;  // out: f32 [count, vocab]
};

// The log probability of a known token, and the likeliest ones at its row.
struct ScoreArgs {
  TensorView logits;                     // f32 [rows, vocab]
  std::span<const StepScore> scores;     // their token rows are not read
  std::span<const int32_t> logits_rows;  // per score: its row of `logits`
  std::span<RowStatus> status;           // out: per score
  Logprobs* logprobs = nullptr;          // appended to, one row per score
};

// What a backend can do; what is not offered is refused by name at start.
struct BackendLimits {
  std::string name;                  // short, for messages
  std::string description;           // one line for the log
  std::vector<int32_t> block_sizes;  // empty: any power of two from 1 to 256
  std::vector<DType> weight_dtypes, kv_dtypes;
  std::vector<WeightFormat> weight_formats = {WeightFormat::kAsStored};
  DType hidden_dtype = DType::kF32;      // of the residual stream
  DType activation_dtype = DType::kF32;  // of query, attention and MLP activations
  int32_t head_dim_multiple = 1;
  int32_t width_multiple = 1;  // of rows and columns of what adds to hidden, and of MLP activations
  int32_t logits_rows = 64;    // that are worth computing at once
};

// What a step needs of its own for a model and its cache depends on.
struct ModelShape {
  int32_t hidden_size = 0, intermediate_size = 0, vocab_size = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t block_size = 0;
  std::vector<int32_t> windows = {};  // of the layers, each once; 0: full attention
};

// The largest step that a runner will ask for.
struct StepBounds {
  int32_t tokens_max = 0, sequences_max = 0;
  int64_t blocks_max = 0;  // of all sequences together
  int32_t samples_max = 0;
  ModelShape model = {};  // all 0: not known, so that the first steps may allocate
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendLimits limits() const = 0;
  virtual size_t FreeBytes() const = 0;  // what the KV pool may take
  // Measures the highest rates of the machine with the resources that this backend uses. Takes
  // about half a second. All zero: this backend does not measure.
  virtual MachineRates MeasureRates() { return {}; }

  // RESOURCE_EXHAUSTED, naming the bytes asked for and those left. Contents start as zero.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) = 0;
  // Takes the matrices that are multiplied together (q|k|v, gate|up) once, rows one part after the
  // other. The views may start at any address and must outlive the weight: a backend may use them
  // in place.
  virtual absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                             WeightUse use, WeightFormat format,
                                                             Shard shard) = 0;
  // Vectors that stay (norms, biases, rope tables), concatenated and widened to f32.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) = 0;

  // Allocates what steps within these bounds need of their own, so that none allocates. A step may
  // be larger; then it does. RESOURCE_EXHAUSTED as Allocate. The next step is fed nothing.
  virtual absl::Status Reserve(const StepBounds& bounds) = 0;

  // Begins a step. The arrays of both arguments stay valid until its Synchronize returns.
  virtual void Upload(const Step& step, const StepLogits& logits) = 0;
  // Enqueues what `enqueue` does. A backend may record that and enqueue the record, instead of
  // calling it, for a later step of the same number of tokens and the same `owner`: the operations
  // and the memory they are given must depend on nothing else, but for what Upload was given.
  virtual void RunStep(const void* owner, absl::FunctionRef<void()> enqueue) = 0;
  // Records what `enqueue` does for each number of tokens up to `tokens_max`, if RunStep would, so
  // that no step has to. Uploads and runs it, for a `step` of one token.
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
