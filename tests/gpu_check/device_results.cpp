// Prints the results of backend operations on inputs that are equal on every machine, so that a
// card can be compared with the emulated device. Each result states its tolerance:
// - No tolerance ("bits") if IEEE 754 determines every rounding, or if nothing is rounded. Examples
//   are copies, norms, rotations, products whose sums are whole numbers, attention to one position,
//   and sampling.
// - A tolerance relative to the largest number, if a tensor instruction adds in an order of its own
//   or if 2^x is approximated.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/numeric.h"
#include "tests/gpu_check/device_bench.h"

namespace incipit::cuda {
namespace {

// Tolerance of f32 sums of up to a few thousand products that are added in another order.
constexpr double kSums = 5e-5;
// Tolerance of a result that is rounded to bf16 either up or down.
constexpr double kRounded = 8e-3;
constexpr double kBits = 0;

using Element = std::function<float(int64_t row, int64_t column)>;

Element Fractions(uint64_t seed, float scale = 1) {
  return [=](int64_t row, int64_t column) {
    const uint64_t bits =
        RandomBits(seed, static_cast<uint32_t>(row), static_cast<uint64_t>(column));
    return scale * (static_cast<float>(bits >> 40) * 0x1p-23f - 1);
  };
}
// Returns whole numbers in [-4, 4], both bounds included.
Element WholeNumbers(uint64_t seed) {
  return [=](int64_t row, int64_t column) {
    const uint64_t bits =
        RandomBits(seed, static_cast<uint32_t>(row), static_cast<uint64_t>(column));
    return static_cast<float>(bits % 9) - 4;
  };
}
// Returns a weight in which element r % columns of each row r is 1, and all other elements are 0.
Element OneColumnEach(int64_t columns) {
  return [=](int64_t row, int64_t column) { return column == row % columns ? 1.0f : 0.0f; };
}
const Element kZeros = [](int64_t, int64_t) { return 0.0f; };

// A matrix in memory that both the host and kernels read.
class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t cols, const Element& element) {
    view_ = {.data = nullptr, .dtype = dtype, .rows = rows, .cols = cols};
    auto memory = Memory::Allocate(Place::kPinned, view_.byte_size());
    INCIPIT_CHECK(memory.ok());
    memory_ = *std::move(memory);
    view_.data = memory_.data();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) Set(r * cols + c, element(r, c));
    }
  }

  const TensorView& view() const { return view_; }
  ConstTensorView const_view() const {
    return {.data = view_.data, .dtype = view_.dtype, .rows = view_.rows, .cols = view_.cols};
  }

 private:
  void Set(int64_t i, float value) {
    if (view_.dtype == DType::kF32) {
      memory_.as<float>()[i] = value;
    } else {
      memory_.as<uint16_t>()[i] = NarrowBF16(value);
    }
  }

  TensorView view_;
  Memory memory_;
};

void Print(const std::string& name, double tolerance, std::string_view dtype, const void* data,
           size_t bytes) {
  fmt::print("{{\"result\": \"{}\", \"tolerance\": {}, \"dtype\": \"{}\", \"bytes\": \"", name,
             tolerance, dtype);
  for (size_t i = 0; i < bytes; ++i) fmt::print("{:02x}", static_cast<const uint8_t*>(data)[i]);
  fmt::print("\"}}\n");
}
void Print(const std::string& name, double tolerance, const Matrix& matrix) {
  const TensorView& view = matrix.view();
  Print(name, tolerance, view.dtype == DType::kF32 ? "f32" : "bf16", view.data, view.byte_size());
}

// The positions [begin, end) of one sequence in a step.
struct Part {
  int32_t begin = 0, end = 0;
  std::vector<BlockId> blocks = {};
};

class Results {
 public:
  explicit Results(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  absl::Status Run(bool smoke) {
    Embed();
    for (const int32_t rows : {1, 16, 32, 64, 100}) Multiply(rows);
    GateAndUp();
    for (const int32_t rows : {1, 16, 32, 64, 100}) AddThenGateAndUp(rows);
    Sample();
    for (const auto& [num_heads, num_kv_heads, head_dim] :
         {std::array{4, 1, 64}, {8, 2, 128}, {6, 2, 24}}) {
      for (const bool has_norms : {true, false}) {
        Attend({.num_layers = 1,
                .num_blocks = 64,
                .block_size = 16,
                .num_kv_heads = num_kv_heads,
                .head_dim = head_dim,
                .dtype = DType::kBF16},
               num_heads, has_norms);
      }
      if (smoke) break;
    }
    return status_;
  }

 private:
  void Finish() {
    const absl::Status status = backend_->Synchronize();
    if (status_.ok()) status_ = status;
  }
  std::unique_ptr<Weight> Pack(const std::vector<const Matrix*>& parts, WeightUse use) {
    std::vector<ConstTensorView> views;
    for (const Matrix* part : parts) views.push_back(part->const_view());
    auto weight = backend_->PackWeight(views, use, WeightFormat::kAsStored, {});
    INCIPIT_CHECK(weight.ok());
    return *std::move(weight);
  }
  std::unique_ptr<Buffer> Store(const Matrix& vector) {
    const ConstTensorView view = vector.const_view();
    auto buffer = backend_->Store({&view, 1});
    INCIPIT_CHECK(buffer.ok());
    return *std::move(buffer);
  }

  void Upload(const std::vector<Part>& parts) {
    tokens_.clear();
    positions_.clear();
    blocks_.clear();
    token_begin_ = block_begin_ = {0};
    for (const Part& part : parts) {
      for (int32_t position = part.begin; position < part.end; ++position) {
        tokens_.push_back((7 * position + 3) % 37);
        positions_.push_back(position);
      }
      blocks_.insert(blocks_.end(), part.blocks.begin(), part.blocks.end());
      token_begin_.push_back(static_cast<int32_t>(tokens_.size()));
      block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
    }
    backend_->Upload({.tokens = tokens_,
                      .positions = positions_,
                      .token_begin = token_begin_,
                      .block_begin = block_begin_,
                      .blocks = blocks_},
                     {});
  }

  void Embed() {
    const Matrix table(DType::kBF16, 37, 72, Fractions(1));
    const Matrix hidden(DType::kF32, 20, 72, kZeros);
    const auto weight = Pack({&table}, WeightRole::kEmbedding);
    Upload({{.end = 20}});
    backend_->Embed({.table = weight.get(), .hidden = hidden.view()});
    Finish();
    Print("embedding", kBits, hidden);
  }

  void Multiply(int32_t rows) {
    for (const bool is_whole : {true, false}) {
      const auto element = [&](uint64_t seed) {
        return is_whole ? WholeNumbers(seed) : Fractions(seed);
      };
      const Matrix matrix(DType::kBF16, 136, 1104, element(2));
      const Matrix x(DType::kBF16, rows, 1104, element(3));
      const Matrix hidden(DType::kF32, rows, 136, element(4));
      const auto weight = Pack({&matrix}, WeightRole::kOutput);
      Upload({{.end = rows}});
      backend_->ProjectAdd(
          {.x = x.view(), .weight = weight.get(), .bias = nullptr, .hidden = hidden.view()});
      Finish();
      Print(fmt::format("product of {}, {} rows", is_whole ? "whole numbers" : "fractions", rows),
            is_whole ? kBits : kSums, hidden);
    }
  }

  void GateAndUp() {
    const Matrix gate(DType::kBF16, 104, 264, Fractions(5)),
        up(DType::kBF16, 104, 264, Fractions(6));
    const Matrix norm(DType::kF32, 1, 264, Fractions(7)),
        hidden(DType::kF32, 33, 264, Fractions(8));
    const Matrix out(DType::kBF16, 33, 104, kZeros);
    const auto weight = Pack({&gate, &up}, WeightRole::kGateUp);
    const auto norm_weight = Store(norm);
    Upload({{.end = 33}});
    backend_->GateUpSilu({.hidden = hidden.view(),
                          .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                          .gate_up = weight.get(),
                          .bias = nullptr,
                          .out = out.view()});
    Finish();
    Print("gate and up", kRounded, out);
  }

  // Computes the matrices gate and up with the norm that the previous product has prepared.
  void AddThenGateAndUp(int32_t rows) {
    const Matrix gate(DType::kBF16, 104, 1112, Fractions(5)),
        up(DType::kBF16, 104, 1112, Fractions(6)), down(DType::kBF16, 1112, 136, WholeNumbers(2));
    const Matrix norm(DType::kF32, 1, 1112, Fractions(7));
    const Matrix x(DType::kBF16, rows, 136, WholeNumbers(3)),
        hidden(DType::kF32, rows, 1112, WholeNumbers(4)), out(DType::kBF16, rows, 104, kZeros);
    const auto down_weight = Pack({&down}, WeightRole::kDown);
    const auto weight = Pack({&gate, &up}, WeightRole::kGateUp);
    const auto norm_weight = Store(norm);
    Upload({{.end = rows}});
    backend_->ProjectAdd({.x = x.view(),
                          .weight = down_weight.get(),
                          .bias = nullptr,
                          .hidden = hidden.view(),
                          .next_norm = norm_weight.get()});
    backend_->GateUpSilu({.hidden = hidden.view(),
                          .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                          .gate_up = weight.get(),
                          .bias = nullptr,
                          .out = out.view()});
    Finish();
    Print(fmt::format("gate and up after a product, {} rows", rows), kRounded, out);
  }

  // ---- keys, values and attention

  // Returns a rotation table for heads of `head_dim` dimensions. The table contains random numbers
  // instead of cosines and sines, so that all machines use the same bits.
  static Matrix RopeOf(int32_t head_dim) { return {DType::kF32, 400, head_dim, Fractions(9)}; }

  // Prints queries and attention. If `has_norms` is true, the heads have their own norms.
  void Attend(const KvPoolShape& shape, int32_t num_heads, bool has_norms) {
    auto pool = backend_->CreateKvPool(shape);
    INCIPIT_CHECK(pool.ok());
    const std::string name = fmt::format("{} heads on {} of {}{}", num_heads, shape.num_kv_heads,
                                         shape.head_dim, has_norms ? "" : ", without norms");
    const int64_t width = int64_t{num_heads} * shape.head_dim, hidden_size = 72;
    const Matrix weight(DType::kBF16, width + 2 * shape.num_kv_heads * shape.head_dim, hidden_size,
                        OneColumnEach(hidden_size));
    const Matrix norm(DType::kF32, 1, hidden_size, Fractions(10, 2));
    const Matrix head_norm(DType::kF32, 1, shape.head_dim, Fractions(11, 2));
    const auto qkv = Pack({&weight}, {WeightRole::kQkv, has_norms ? 0 : shape.head_dim});
    const auto norm_weight = Store(norm), head_norm_weight = Store(head_norm);
    const auto rope = Store(RopeOf(shape.head_dim));
    const auto attend = [&](const std::vector<Part>& parts, const std::string& what,
                            double tolerance) {
      Upload(parts);
      const auto rows = std::ssize(tokens_);
      const Matrix hidden(DType::kF32, rows, hidden_size, Fractions(12 + rows));
      const Matrix query(DType::kBF16, rows, width, kZeros), out(DType::kBF16, rows, width, kZeros);
      backend_->QkvRopeAppend({.hidden = hidden.view(),
                               .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                               .qkv = qkv.get(),
                               .bias = nullptr,
                               .query_norm = has_norms ? head_norm_weight.get() : nullptr,
                               .key_norm = has_norms ? head_norm_weight.get() : nullptr,
                               .head_norm_epsilon = 1e-6f,
                               .rope = rope.get(),
                               .num_heads = num_heads,
                               .num_kv_heads = shape.num_kv_heads,
                               .head_dim = shape.head_dim,
                               .pool = pool->get(),
                               .layer = 0,
                               .query = query.view()});
      AttendTo(**pool, num_heads, query, out);
      Print("query, " + name + ", " + what, kBits, query);
      Print("attention, " + name + ", " + what, tolerance, out);
    };
    std::vector<BlockId> long_table, short_table = {BlockId{61}, BlockId{2}};
    for (int32_t i = 0; i < 20; ++i) long_table.push_back(BlockId{5 + 17 * i % 55});
    attend({{0, 1, short_table}}, "one position", kBits);
    // Copies the first slot of page 61 to page 63. The attention below then reads page 63.
    const BlockCopy copy = {BlockId{61}, BlockId{63}, 1};
    Upload({{0, 1, {BlockId{63}}}});
    const Matrix query(DType::kBF16, 1, width, Fractions(13)), out(DType::kBF16, 1, width, kZeros);
    backend_->CopyBlocks(**pool, {&copy, 1});
    AttendTo(**pool, num_heads, query, out);
    Print("copied page, " + name, kBits, out);
    attend({{0, 299, long_table}}, "a prompt", kRounded);
    attend({{299, 300, long_table}, {1, 2, short_table}}, "decoding", kRounded);
  }

  void AttendTo(KvPool& pool, int32_t num_heads, const Matrix& query, const Matrix& out) {
    backend_->Attention({.query = query.view(),
                         .pool = &pool,
                         .layer = 0,
                         .num_heads = num_heads,
                         .scale = 1 / std::sqrt(static_cast<float>(pool.shape().head_dim)),
                         .window = 0,
                         .out = out.view()});
    Finish();
  }

  // ---- sampling

  void Sample() {
    constexpr int32_t kRows = 24, kVocab = 3000;
    const Matrix logits(DType::kF32, kRows, kVocab, Fractions(14, 8));
    std::vector<SamplingParams> params(kRows);
    std::vector<StepSample> samples;
    std::vector<StepScore> scores;
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < kRows; ++i) {
      SamplingParams& one = params[static_cast<size_t>(i)];
      one.temperature = i % 4 == 0 ? 0 : 0.5f + 0.1f * static_cast<float>(i % 7);
      one.top_k = i % 3 == 1 ? 40 : 0;
      one.top_p = i % 3 == 2 ? 0.9f : 1;
      one.min_p = i % 5 == 4 ? 0.05f : 0;
      one.seed = static_cast<uint64_t>(i);
      one.num_logprobs = 5;
      samples.push_back({.params = &one, .choice = i % 2, .position = 10 + i});
      scores.push_back({.target = 100 * i, .num_top = 3});
      rows.push_back(i);
    }
    std::vector<TokenId> tokens(kRows);
    std::vector<RowStatus> status(kRows);
    Logprobs sampled, scored;
    Upload({{.end = kRows}});
    backend_->Sample({.logits = logits.view(),
                      .samples = samples,
                      .logits_rows = rows,
                      .tokens = tokens,
                      .status = status,
                      .logprobs = &sampled});
    Finish();
    Upload({{.end = kRows}});
    backend_->Score({.logits = logits.view(),
                     .scores = scores,
                     .logits_rows = rows,
                     .status = status,
                     .logprobs = &scored});
    Finish();
    Print("drawn tokens", kBits, "i32", tokens.data(), tokens.size() * sizeof(TokenId));
    PrintLogprobs("log probabilities of draws", sampled);
    PrintLogprobs("log probabilities of a prompt", scored);
  }

  static void PrintLogprobs(const std::string& name, const Logprobs& logprobs) {
    std::vector<float> values;
    for (const auto& list : {logprobs.chosen, logprobs.top}) {
      for (const TokenLogprob& one : list) {
        values.push_back(static_cast<float>(one.token));
        values.push_back(one.logprob);
      }
    }
    Print(name, kBits, "f32", values.data(), values.size() * sizeof(float));
  }

  std::unique_ptr<Backend> backend_;
  absl::Status status_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_, block_begin_;
  std::vector<BlockId> blocks_;
};

}  // namespace

absl::Status PrintResults(DeviceBench& bench) {
  INCIPIT_ASSIGN_OR_RETURN(auto backend, CreateCudaBackend({}));
  return Results(std::move(backend)).Run(bench.is_smoke());
}

}  // namespace incipit::cuda
