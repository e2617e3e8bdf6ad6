#include "kernels/reference/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/fed_tokens.h"
#include "kernels/numeric.h"
#include "kernels/reference/ops.h"
#include "kernels/reference/sampler.h"

namespace incipit::reference {
namespace {

// A weight of the reference backend. Operations read the original matrices, without a packed copy.
class ReferenceWeight final : public Weight {
 public:
  ReferenceWeight(std::span<const ConstTensorView> parts, WeightFormat format)
      : parts_(parts.begin(), parts.end()), format_(format) {}

  int64_t rows() const override {
    int64_t sum = 0;
    for (const ConstTensorView& part : parts_) sum += part.rows;
    return sum;
  }
  int64_t cols() const override { return parts_.front().cols; }
  size_t byte_size() const override { return 0; }

  std::vector<float> Times(std::span<const float> x) const {
    std::vector<float> y(static_cast<size_t>(rows()));
    size_t begin = 0;
    for (const ConstTensorView& part : parts_) {
      const auto of_part = std::span(y).subspan(begin, static_cast<size_t>(part.rows));
      if (format_ == WeightFormat::kInt8) {
        MultiplyInt8(x, part, of_part);
      } else {
        Multiply(x, part, of_part);
      }
      begin += static_cast<size_t>(part.rows);
    }
    return y;
  }
  void GatherRow(int64_t row, std::span<float> out) const {
    for (const ConstTensorView& part : parts_) {
      if (row < part.rows) {
        return format_ == WeightFormat::kInt8 ? GatherInt8(part, row, out) : Gather(part, row, out);
      }
      row -= part.rows;
    }
    INCIPIT_CHECK(false);
  }

 private:
  std::vector<ConstTensorView> parts_;
  WeightFormat format_;
};

// A KV pool with the layout [layer][block][key, value][slot][head][head_dim]. A slot is a position
// of a cache block.
class ReferencePool final : public KvPool {
 public:
  ReferencePool(const KvPoolShape& shape, std::unique_ptr<HostBuffer> memory)
      : shape_(shape), memory_(std::move(memory)) {}

  const KvPoolShape& shape() const override { return shape_; }

  static size_t ByteSizeOf(const KvPoolShape& shape) {
    return shape.block_bytes() * static_cast<size_t>(shape.num_blocks);
  }

  // Location of one vector of KV head `head`: the key (`part` is 0) or the value (`part` is 1).
  // `slot` is the position in the cache block `block`.
  struct Slot {
    int32_t layer = 0;
    BlockId block{};
    int32_t slot = 0, head = 0, part = 0;
  };
  void Write(const Slot& at, std::span<const float> vector) {
    char* out = At(at);
    for (const float value : vector) {
      if (shape_.dtype == DType::kF32) {
        std::memcpy(out, &value, sizeof(value));
      } else {
        const uint16_t bits = NarrowBF16(value);
        std::memcpy(out, &bits, sizeof(bits));
      }
      out += ByteSize(shape_.dtype);
    }
  }
  void Read(const Slot& at, std::span<float> vector) const {
    for (size_t i = 0; i < vector.size(); ++i) {
      vector[i] = LoadF32(At(at), shape_.dtype, static_cast<int64_t>(i));
    }
  }

  void Copy(const BlockCopy& copy) {
    const size_t bytes =
        size_t(copy.num_tokens) * shape_.num_kv_heads * shape_.head_dim * ByteSize(shape_.dtype);
    for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
      for (int32_t part = 0; part < 2; ++part) {
        std::memmove(At({.layer = layer, .block = copy.to, .part = part}),
                     At({.layer = layer, .block = copy.from, .part = part}), bytes);
      }
    }
  }

  // Sets the keys and values of a block in all layers.
  void Set(const BlockWrite& write) {
    const size_t bytes = shape_.block_bytes() / static_cast<size_t>(shape_.num_layers);
    for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
      std::memcpy(At({.layer = layer, .block = write.to}),
                  write.data + static_cast<size_t>(layer) * bytes, bytes);
    }
  }
  // Copies the keys and values of a block in all layers to `to`.
  void Get(BlockId block, std::byte* to) const {
    const size_t bytes = shape_.block_bytes() / static_cast<size_t>(shape_.num_layers);
    for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
      std::memcpy(to + static_cast<size_t>(layer) * bytes, At({.layer = layer, .block = block}),
                  bytes);
    }
  }

 private:
  char* At(const Slot& at) const {
    const auto block = static_cast<int32_t>(at.block);
    INCIPIT_CHECK(block >= 0 && block < shape_.num_blocks && at.slot < shape_.block_size);
    INCIPIT_CHECK(at.layer >= 0 && at.layer < shape_.num_layers);
    size_t vector = size_t(at.layer) * shape_.num_blocks + block;
    vector = vector * 2 + at.part;
    vector = vector * shape_.block_size + at.slot;
    vector = vector * shape_.num_kv_heads + at.head;
    return static_cast<char*>(memory_->data()) + vector * shape_.head_dim * ByteSize(shape_.dtype);
  }

  KvPoolShape shape_;
  std::unique_ptr<HostBuffer> memory_;
};

std::span<float> RowOf(const TensorView& view, int64_t row) {
  return {static_cast<float*>(view.data) + row * view.cols, static_cast<size_t>(view.cols)};
}

std::span<const float> FloatsOf(const Buffer* buffer) {
  return {static_cast<const float*>(buffer->data()), buffer->byte_size() / sizeof(float)};
}

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(size_t memory_limit_bytes) : memory_(memory_limit_bytes) {}

  BackendLimits limits() const override {
    return {.name = "cpu",
            .description = "reference loops, 1 thread",
            .numerics = "reference",
            .block_sizes = {},
            .weight_dtypes = {DType::kF32, DType::kF16, DType::kBF16},
            .kv_dtypes = {DType::kF32, DType::kBF16},
            .weight_formats = {WeightFormat::kAsStored, WeightFormat::kInt8},
            .activation_dtype = DType::kF32,
            .head_dim_multiple = 2};
  }
  size_t FreeBytes() const override { return memory_.FreeBytes(); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return memory_.Allocate(bytes, "a buffer");
  }

  absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) override {
    INCIPIT_RETURN_IF_ERROR(CheckKvPoolShape(shape));
    INCIPIT_ASSIGN_OR_RETURN(auto memory,
                             memory_.Allocate(ReferencePool::ByteSizeOf(shape), "the KV pool"));
    return std::make_unique<ReferencePool>(shape, std::move(memory));
  }

  absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                     WeightUse, WeightFormat format,
                                                     Shard shard) override {
    INCIPIT_RETURN_IF_ERROR(CheckWeightParts(parts, shard));
    return std::make_unique<ReferenceWeight>(parts, format);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) override {
    return StoreAsF32(memory_, parts);
  }

  absl::Status Reserve(const StepBounds&) override { return absl::OkStatus(); }

  void Upload(const Step& step, const StepLogits& logits) override {
    CheckStep(step, logits);
    step_ = step;
    step_.tokens = fed_tokens_.BeginStep(step.tokens);
    logits_rows_ = logits.rows;
  }

  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }

  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override {
    for (const BlockWrite& write : writes) static_cast<ReferencePool&>(pool).Set(write);
  }
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override {
    const size_t bytes = BlockBytes(pool);
    INCIPIT_CHECK(to.size() == blocks.size() * bytes);
    for (size_t i = 0; i < blocks.size(); ++i) {
      static_cast<const ReferencePool&>(pool).Get(blocks[i], to.data() + i * bytes);
    }
    return absl::OkStatus();
  }

  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override {
    for (const BlockCopy& copy : copies) static_cast<ReferencePool&>(pool).Copy(copy);
  }

  void Embed(const EmbedArgs& args) override {
    const auto& table = static_cast<const ReferenceWeight&>(*args.table);
    CheckActivation(args.hidden, num_tokens(), table.cols());
    for (int64_t i = 0; i < num_tokens(); ++i) {
      table.GatherRow(step_.tokens[i], RowOf(args.hidden, i));
    }
  }

  void QkvRopeAppend(const QkvRopeAppendArgs& args) override {
    CheckActivation(args.query, num_tokens(), int64_t{args.num_heads} * args.head_dim);
    CheckPoolCovers(step_, args.pool->shape());
    for (size_t s = 0; s + 1 < step_.token_begin.size(); ++s) {
      for (int32_t i = step_.token_begin[s]; i < step_.token_begin[s + 1]; ++i) {
        AppendRow(args, i, BlocksOf(s));
      }
    }
  }

  void Attention(const AttentionArgs& args) override {
    CheckPoolCovers(step_, args.pool->shape());
    CheckActivation(args.out, num_tokens(), args.query.cols);
    for (size_t s = 0; s + 1 < step_.token_begin.size(); ++s) {
      for (int32_t i = step_.token_begin[s]; i < step_.token_begin[s + 1]; ++i) {
        AttendRow(args, i, BlocksOf(s));
      }
    }
  }

  void ProjectAdd(const ProjectAddArgs& args) override {
    const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
    CheckActivation(args.x, num_tokens(), weight.cols());
    CheckActivation(args.hidden, num_tokens(), weight.rows());
    for (int64_t i = 0; i < num_tokens(); ++i) {
      std::vector<float> y = weight.Times(RowOf(args.x, i));
      if (args.bias != nullptr) Add(FloatsOf(args.bias), y);
      Add(y, RowOf(args.hidden, i));
    }
  }

  void GateUpSilu(const GateUpSiluArgs& args) override {
    CheckActivation(args.out, num_tokens(), args.gate_up->rows() / 2);
    for (int64_t i = 0; i < num_tokens(); ++i) {
      std::vector<float> y = NormTimes(RowOf(args.hidden, i), args.norm, *args.gate_up);
      if (args.bias != nullptr) Add(FloatsOf(args.bias), y);
      const std::span<const float> both(y);
      SiluMultiply(both.first(y.size() / 2), both.last(y.size() / 2), RowOf(args.out, i));
    }
  }

  void Logits(const LogitsArgs& args) override {
    CheckActivation(args.logits, args.count, args.head->rows());
    for (int32_t i = 0; i < args.count; ++i) {
      const int32_t row = logits_rows_[args.begin + i];
      const std::vector<float> y = NormTimes(RowOf(args.hidden, row), args.norm, *args.head);
      std::copy(y.begin(), y.end(), RowOf(args.logits, i).begin());
    }
  }

  void Sample(const SampleArgs& args) override {
    CheckSampleArgs(args);
    for (size_t i = 0; i < args.samples.size(); ++i) {
      const StepSample& sample = args.samples[i];
      const std::span<const float> logits = RowOf(args.logits, args.logits_rows[i]);
      const TokenId pending = fed_tokens_.PendingTokenOf(sample);
      const SampledToken sampled = SampleToken(sample, pending, logits);
      args.tokens[i] = sampled.token;
      args.status[i] = sampled.status;
      if (sample.params->num_logprobs >= 0) {
        AppendLogprobs(logits, sampled.token, sample.params->num_logprobs, *args.logprobs);
      }
    }
    fed_tokens_.Add(args.tokens);
  }

  void Score(const ScoreArgs& args) override {
    CheckScoreArgs(args);
    for (size_t i = 0; i < args.scores.size(); ++i) {
      const StepScore& score = args.scores[i];
      args.status[i] = AppendLogprobs(RowOf(args.logits, args.logits_rows[i]), score.target,
                                      score.num_top, *args.logprobs);
    }
  }

  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  int64_t num_tokens() const { return std::ssize(step_.tokens); }

  std::span<const BlockId> BlocksOf(size_t sequence) const {
    const auto begin = static_cast<size_t>(step_.block_begin[sequence]);
    const auto end = static_cast<size_t>(step_.block_begin[sequence + 1]);
    return step_.blocks.subspan(begin, end - begin);
  }

  static std::vector<float> NormTimes(std::span<const float> hidden, const NormArgs& norm,
                                      const Weight& weight) {
    std::vector<float> x(hidden.size());
    RmsNorm(hidden, FloatsOf(norm.weight), norm.epsilon, x);
    return static_cast<const ReferenceWeight&>(weight).Times(x);
  }

  void AppendRow(const QkvRopeAppendArgs& args, int32_t row, std::span<const BlockId> blocks) {
    auto& pool = static_cast<ReferencePool&>(*args.pool);
    const auto head_dim = static_cast<size_t>(args.head_dim);
    const int32_t position = step_.positions[row];
    const auto rope = FloatsOf(args.rope).subspan(position * head_dim, head_dim);
    std::vector<float> qkv = NormTimes(RowOf(args.hidden, row), args.norm, *args.qkv);
    if (args.bias != nullptr) Add(FloatsOf(args.bias), qkv);
    INCIPIT_CHECK(qkv.size() == (args.num_heads + 2 * args.num_kv_heads) * head_dim);

    const int32_t first_value = args.num_heads + args.num_kv_heads;
    for (int32_t h = 0; h < first_value + args.num_kv_heads; ++h) {
      const auto head = std::span(qkv).subspan(h * head_dim, head_dim);
      const Buffer* norm = h < args.num_heads ? args.query_norm : args.key_norm;
      if (h < first_value) {
        if (norm != nullptr) RmsNorm(head, FloatsOf(norm), args.head_norm_epsilon, head);
        Rotate(rope, head);
      }
      if (h < args.num_heads) {
        std::copy(head.begin(), head.end(), RowOf(args.query, row).begin() + h * args.head_dim);
        continue;
      }
      const bool is_value = h >= first_value;
      pool.Write({.layer = args.layer,
                  .block = blocks[position / pool.shape().block_size],
                  .slot = position % pool.shape().block_size,
                  .head = h - (is_value ? first_value : args.num_heads),
                  .part = is_value ? 1 : 0},
                 head);
    }
  }

  void AttendRow(const AttentionArgs& args, int32_t row, std::span<const BlockId> blocks) const {
    const auto& pool = static_cast<const ReferencePool&>(*args.pool);
    const KvPoolShape& shape = pool.shape();
    const auto head_dim = static_cast<size_t>(shape.head_dim);
    const int32_t end = step_.positions[row] + 1;
    const int32_t begin = args.window > 0 ? std::max(0, end - args.window) : 0;
    std::vector<float> keys((end - begin) * head_dim), values(keys.size());
    for (int32_t h = 0; h < args.num_heads; ++h) {
      for (int32_t t = begin; t < end; ++t) {
        ReferencePool::Slot at{.layer = args.layer,
                               .block = blocks[t / shape.block_size],
                               .slot = t % shape.block_size,
                               .head = h / (args.num_heads / shape.num_kv_heads),
                               .part = 0};
        pool.Read(at, std::span(keys).subspan((t - begin) * head_dim, head_dim));
        at.part = 1;
        pool.Read(at, std::span(values).subspan((t - begin) * head_dim, head_dim));
      }
      Attend({.query = RowOf(args.query, row).subspan(h * head_dim, head_dim),
              .keys = keys,
              .values = values,
              .scale = args.scale},
             RowOf(args.out, row).subspan(h * head_dim, head_dim));
    }
  }

  HostMemory memory_;
  // The current step (batch). Its placeholders (token ids below 0) are already replaced by tokens
  // that the previous step has sampled.
  Step step_;
  std::span<const int32_t> logits_rows_;
  FedTokens fed_tokens_;
};

}  // namespace

std::unique_ptr<Backend> CreateBackend(size_t memory_limit_bytes) {
  return std::make_unique<ReferenceBackend>(memory_limit_bytes);
}

}  // namespace incipit::reference
