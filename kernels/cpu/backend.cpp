#include "kernels/cpu/backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/host_limits.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/measure_rates.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/sampler.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"
#include "kernels/fed_tokens.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

// Maximum number of tokens for which queries, keys and values are computed at a time.
constexpr int64_t kPassRows = 512;

float* RowAt(const TensorView& view, int64_t row) {
  return static_cast<float*>(view.data) + row * view.cols;
}

const float* FloatsOf(const Buffer* buffer) { return static_cast<const float*>(buffer->data()); }

const float* FloatsOrNull(const Buffer* buffer) {
  return buffer == nullptr ? nullptr : FloatsOf(buffer);
}

void CheckVector(const Buffer* buffer, int64_t size) {
  INCIPIT_CHECK(buffer == nullptr ||
                buffer->byte_size() == static_cast<size_t>(size) * sizeof(float));
}

PackedMatrix& MatrixOf(const Weight* weight) {
  PackedMatrix* const matrix = static_cast<const CpuWeight*>(weight)->matrix();
  INCIPIT_CHECK(matrix != nullptr);
  return *matrix;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const simd::Kernels& kernels, const CpuOptions& options, const CpuChoices& choices)
      : kernels_(kernels),
        threads_(options.num_threads > 0 ? options.num_threads : AvailableCpus(),
                 options.pin_threads),
        memory_(choices.memory_limit_bytes),
        products_{.kernels = kernels,
                  .threads = threads_,
                  .memory = memory_,
                  .packed_rows = {},
                  .row_scales = {},
                  .row_of_thread = {}},
        attention_(kernels, threads_),
        sampler_(kernels, threads_) {}

  BackendLimits limits() const override {
    return {.name = "cpu",
            .description = fmt::format("{}, {} threads", kernels_.name, threads_.count()),
            // The bits of the results do not depend on the number of threads.
            .numerics = kernels_.name,
            .block_sizes = {},
            .weight_dtypes = {DType::kF32, DType::kF16, DType::kBF16},
            .kv_dtypes = {DType::kF32, DType::kBF16},
            .weight_formats = {WeightFormat::kAsStored, WeightFormat::kInt8},
            .activation_dtype = DType::kF32,
            .head_dim_multiple = 2};
  }

  size_t FreeBytes() const override { return memory_.FreeBytes(); }
  MachineRates MeasureRates() override { return MeasureCpuRates(kernels_, threads_); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return memory_.Allocate(bytes, "a buffer");
  }

  absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) override {
    INCIPIT_RETURN_IF_ERROR(CheckKvPoolShape(shape));
    INCIPIT_ASSIGN_OR_RETURN(auto memory,
                             memory_.Allocate(CpuKvPool::ByteSizeOf(shape), "the KV pool"));
    return std::make_unique<CpuKvPool>(shape, std::move(memory));
  }

  absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                     WeightUse use, WeightFormat format,
                                                     Shard shard) override {
    INCIPIT_RETURN_IF_ERROR(CheckWeightParts(parts, shard));
    std::unique_ptr<PackedMatrix> matrix;
    if (use.role != WeightRole::kEmbedding) {
      INCIPIT_ASSIGN_OR_RETURN(matrix, PackedMatrix::Pack({parts, use.role, format}, products_));
    }
    return std::make_unique<CpuWeight>(parts, format, std::move(matrix));
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) override {
    return StoreAsF32(memory_, parts);
  }

  // Does nothing: this backend allocates its working memory in the first step that needs the
  // memory.
  absl::Status Reserve(const StepBounds&) override { return absl::OkStatus(); }

  void Upload(const Step& step, const StepLogits& logits) override {
    CheckStep(step, logits);
    step_ = step;
    step_.tokens = fed_tokens_.BeginStep(step.tokens);
    logits_rows_ = logits.rows;
    threads_.UseForCallingThread();
    threads_.PinOnce();
  }

  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }

  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override;
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override;
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override {
    auto& cpu_pool = static_cast<CpuKvPool&>(pool);
    const int32_t num_layers = pool.shape().num_layers;
    for (const BlockCopy& copy : copies) {
      for (int32_t layer = 0; layer < num_layers; ++layer) cpu_pool.Copy(layer, copy);
    }
  }

  void Embed(const EmbedArgs& args) override;
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void ProjectAdd(const ProjectAddArgs& args) override;
  void GateUpSilu(const GateUpSiluArgs& args) override;
  void Logits(const LogitsArgs& args) override;

  void Sample(const SampleArgs& args) override {
    sampler_.Sample(args, fed_tokens_);
    fed_tokens_.Add(args.tokens);
  }
  void Score(const ScoreArgs& args) override { sampler_.Score(args); }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  // Calls move(i, part, offset) for block number i of `num_blocks` blocks and each layer. `part` is
  // the memory of the block in the layer, whose bytes begin at `offset` in the bytes of the block.
  // `id_of(i)` is the block id. Several threads call `move`.
  template <class IdOf, class Move>
  void ForBlockParts(const CpuKvPool& pool, size_t num_blocks, const IdOf& id_of, const Move& move);

  int64_t num_tokens() const { return std::ssize(step_.tokens); }

  // Returns the input of a matrix product that applies the RMS norm `norm` to all rows of `hidden`.
  ProductInput Normalized(const TensorView& hidden, const NormArgs& norm, int64_t cols) const {
    INCIPIT_CHECK(hidden.cols == cols);
    CheckVector(norm.weight, cols);
    return {.x = RowAt(hidden, 0),
            .indices = nullptr,
            .num_rows = num_tokens(),
            .norm_weight = FloatsOf(norm.weight),
            .epsilon = norm.epsilon};
  }
  // Normalises and rotates the query and key heads of token `row`, and stores the token's queries,
  // keys and values. `qkv` holds the queries, keys and values that the matrix product computed.
  void FinishToken(const QkvRopeAppendArgs& args, int64_t row, float* qkv);

  const simd::Kernels& kernels_;
  Threads threads_;
  HostMemory memory_;
  ProductContext products_;
  CpuAttention attention_;
  CpuSampler sampler_;
  // The current step. Sampled tokens have replaced its placeholders (token ids below 0).
  Step step_;
  std::span<const int32_t> logits_rows_;
  FedTokens fed_tokens_;
  // Element i is the index of the sequence to which token i of the step belongs.
  std::vector<int32_t> sequence_of_;
  Scratch<float> product_;
  Scratch<int8_t> rounded_;
};

template <class IdOf, class Move>
void CpuBackend::ForBlockParts(const CpuKvPool& pool, size_t num_blocks, const IdOf& id_of,
                               const Move& move) {
  const int64_t num_layers = pool.shape().num_layers;
  const auto size = static_cast<int64_t>(num_blocks) * num_layers;
  const auto bytes = static_cast<int64_t>(num_blocks * BlockBytes(pool));
  threads_.ForParts(size, bytes, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t part = begin; part < end; ++part) {
      const auto layer = static_cast<int32_t>(part % num_layers);
      const std::span<std::byte> memory = pool.Block(layer, id_of(part / num_layers));
      move(part / num_layers, memory, static_cast<size_t>(layer) * memory.size());
    }
  });
}

void CpuBackend::WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) {
  ForBlockParts(
      static_cast<CpuKvPool&>(pool), writes.size(), [&](int64_t i) { return writes[i].to; },
      [&](int64_t i, std::span<std::byte> part, size_t offset) {
        std::memcpy(part.data(), writes[i].data + offset, part.size());
      });
}

absl::Status CpuBackend::ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                                    std::span<std::byte> to) {
  const size_t block_bytes = BlockBytes(pool);
  INCIPIT_CHECK(to.size() == blocks.size() * block_bytes);
  ForBlockParts(
      static_cast<const CpuKvPool&>(pool), blocks.size(), [&](int64_t i) { return blocks[i]; },
      [&](int64_t i, std::span<std::byte> part, size_t offset) {
        std::memcpy(to.data() + static_cast<size_t>(i) * block_bytes + offset, part.data(),
                    part.size());
      });
  return absl::OkStatus();
}

void CpuBackend::Embed(const EmbedArgs& args) {
  const auto& table = static_cast<const CpuWeight&>(*args.table);
  CheckActivation(args.hidden, num_tokens(), table.cols());
  for (int64_t i = 0; i < num_tokens(); ++i) {
    int64_t token = step_.tokens[i];
    INCIPIT_CHECK(token >= 0 && token < table.rows());
    auto part = table.parts().begin();
    for (; token >= part->rows; ++part) token -= part->rows;
    const std::span<float> out(RowAt(args.hidden, i), static_cast<size_t>(part->cols));
    const size_t offset = static_cast<size_t>(token * part->cols) * ByteSize(part->dtype);
    WidenRow(static_cast<const char*>(part->data) + offset, part->dtype, out);
    if (table.format() != WeightFormat::kInt8) continue;
    const std::span<int8_t> numbers(rounded_.Get(part->cols), out.size());
    const float scale = kernels_.quantize_row(out.data(), part->cols, numbers.data());
    for (size_t d = 0; d < out.size(); ++d) out[d] = static_cast<float>(numbers[d]) * scale;
  }
}

void CpuBackend::QkvRopeAppend(const QkvRopeAppendArgs& args) {
  const int64_t width = int64_t{args.num_heads + 2 * args.num_kv_heads} * args.head_dim;
  const KvPoolShape& shape = args.pool->shape();
  CheckActivation(args.hidden, num_tokens(), args.qkv->cols());
  CheckActivation(args.query, num_tokens(), int64_t{args.num_heads} * args.head_dim);
  CheckPoolCovers(step_, shape);
  CheckVector(args.bias, width);
  CheckVector(args.query_norm, args.head_dim);
  CheckVector(args.key_norm, args.head_dim);
  INCIPIT_CHECK(args.qkv->rows() == width && args.head_dim % 2 == 0);
  INCIPIT_CHECK(shape.num_kv_heads == args.num_kv_heads && shape.head_dim == args.head_dim);

  sequence_of_.resize(step_.tokens.size());
  for (size_t s = 0; s + 1 < step_.token_begin.size(); ++s) {
    std::fill(sequence_of_.begin() + step_.token_begin[s],
              sequence_of_.begin() + step_.token_begin[s + 1], static_cast<int32_t>(s));
  }
  for (int64_t begin = 0; begin < num_tokens(); begin += kPassRows) {
    const int64_t count = std::min(kPassRows, num_tokens() - begin);
    float* const qkv = product_.Get(count * width);
    MatrixOf(args.qkv).Multiply(
        Normalized(args.hidden, args.norm, args.qkv->cols()).Part(begin, count, args.hidden.cols),
        {.finish = simd::Finish::kStore, .bias = FloatsOrNull(args.bias), .y = qkv});
    threads_.ForParts(count, count * width, [&](int64_t first, int64_t last, int32_t) {
      for (int64_t i = first; i < last; ++i) FinishToken(args, begin + i, qkv + i * width);
    });
  }
}

void CpuBackend::FinishToken(const QkvRopeAppendArgs& args, int64_t row, float* qkv) {
  auto& pool = static_cast<CpuKvPool&>(*args.pool);
  const int64_t head_dim = args.head_dim;
  const int64_t num_rotated = args.num_heads + args.num_kv_heads;
  const int32_t position = step_.positions[row];
  INCIPIT_CHECK((position + int64_t{1}) * head_dim * sizeof(float) <= args.rope->byte_size());
  const float* const rope = FloatsOf(args.rope) + position * head_dim;
  for (int64_t h = 0; h < num_rotated; ++h) {
    float* const head = qkv + h * head_dim;
    const Buffer* const norm = h < args.num_heads ? args.query_norm : args.key_norm;
    if (norm != nullptr) {
      kernels_.rms_norm(head, FloatsOf(norm), args.head_norm_epsilon, head_dim, head);
    }
    kernels_.rotate(rope, head_dim / 2, head);
  }
  std::memcpy(RowAt(args.query, row), qkv,
              static_cast<size_t>(args.num_heads * head_dim) * sizeof(float));

  const int32_t block_size = pool.shape().block_size;
  const BlockId block = step_.blocks[step_.block_begin[sequence_of_[row]] + position / block_size];
  const auto size = static_cast<size_t>(head_dim);
  for (int32_t h = 0; h < args.num_kv_heads; ++h) {
    const std::span<const float> key_value[2] = {{qkv + (args.num_heads + h) * head_dim, size},
                                                 {qkv + (num_rotated + h) * head_dim, size}};
    pool.Write({.layer = args.layer, .head = h, .block = block, .slot = position % block_size},
               key_value);
  }
}

void CpuBackend::Attention(const AttentionArgs& args) {
  const KvPoolShape& shape = args.pool->shape();
  CheckPoolCovers(step_, shape);
  CheckActivation(args.query, num_tokens(), int64_t{args.num_heads} * shape.head_dim);
  CheckActivation(args.out, num_tokens(), int64_t{args.num_heads} * shape.head_dim);
  attention_.Run(args, step_);
}

void CpuBackend::ProjectAdd(const ProjectAddArgs& args) {
  const int64_t cols = args.weight->cols(), rows = args.weight->rows();
  CheckActivation(args.x, num_tokens(), cols);
  CheckActivation(args.hidden, num_tokens(), rows);
  CheckVector(args.bias, rows);
  MatrixOf(args.weight)
      .Multiply({.x = RowAt(args.x, 0), .num_rows = num_tokens()}, {.finish = simd::Finish::kAdd,
                                                                    .bias = FloatsOrNull(args.bias),
                                                                    .y = RowAt(args.hidden, 0)});
}

void CpuBackend::GateUpSilu(const GateUpSiluArgs& args) {
  const int64_t size = args.gate_up->rows() / 2;
  CheckActivation(args.hidden, num_tokens(), args.gate_up->cols());
  CheckActivation(args.out, num_tokens(), size);
  CheckVector(args.bias, 2 * size);
  MatrixOf(args.gate_up)
      .Multiply(Normalized(args.hidden, args.norm, args.gate_up->cols()),
                {.finish = simd::Finish::kSilu,
                 .bias = FloatsOrNull(args.bias),
                 .y = RowAt(args.out, 0)});
}

void CpuBackend::Logits(const LogitsArgs& args) {
  const int64_t cols = args.head->cols();
  CheckActivation(args.hidden, num_tokens(), cols);
  CheckActivation(args.logits, args.count, args.head->rows());
  CheckVector(args.norm.weight, cols);
  INCIPIT_CHECK(args.begin >= 0 && args.begin + args.count <= std::ssize(logits_rows_));
  ProductInput input = Normalized(args.hidden, args.norm, cols);
  input.indices = logits_rows_.data() + args.begin;
  input.num_rows = args.count;
  MatrixOf(args.head).Multiply(
      input, {.finish = simd::Finish::kStore, .bias = nullptr, .y = RowAt(args.logits, 0)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackendWith(const CpuOptions& options,
                                                              const CpuChoices& choices) {
  if (options.num_threads < 0) {
    return InvalidArgument("the number of CPU threads is {}; it must not be negative",
                           options.num_threads);
  }
  if (choices.kernels != nullptr) {
    return std::make_unique<CpuBackend>(*choices.kernels, options, choices);
  }
  std::vector<std::string_view> names;
  for (const simd::Kernels* const kernels : simd::SupportedKernels()) {
    if (options.isa.empty() || options.isa == kernels->name) {
      return std::make_unique<CpuBackend>(*kernels, options, choices);
    }
    names.emplace_back(kernels->name);
  }
  return InvalidArgument("this machine does not support the instruction set {}; it supports {}",
                         options.isa, fmt::join(names, ", "));
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  return CreateCpuBackendWith(options, {});
}

}  // namespace incipit
