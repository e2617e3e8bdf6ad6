#include "kernels/cuda/device/attention/append.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/cuda/attention_case.h"

namespace incipit::cuda {
namespace {

struct AppendShape {
  int num_heads = 4, num_kv_heads = 2, head_dim = 64, page_size = 16;
  bool has_bias = true, has_norms = true;
};

float Value(uint64_t seed) {
  seed = (seed + 1) * 0x9E3779B97F4A7C15;
  seed = (seed ^ (seed >> 29)) * 0xBF58476D1CE4E5B9;
  return static_cast<float>(static_cast<double>(seed >> 40) / (1 << 23) - 1);
}

float NumberOf(float x) { return x; }
float NumberOf(dev::bf16 x) { return dev::ToFloat(x); }
void Set(float& to, float x) { to = x; }
void Set(dev::bf16& to, float x) { to = dev::ToBF16(x); }

// Two sequences with some of their tokens in the step. The inputs have type T. The expected results
// follow the definition in double precision.
template <class T>
class AppendProblem {
 public:
  explicit AppendProblem(const AppendShape& shape)
      : shape_(shape),
        step_({.num_heads = shape.num_heads,
               .num_kv_heads = shape.num_kv_heads,
               .head_dim = shape.head_dim,
               .page_size = shape.page_size},
              {{0, 3, 20}, {1, 70, 71}}) {
    columns_ = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
    product_.resize(static_cast<size_t>(step_.num_tokens()) * columns_);
    for (size_t i = 0; i < product_.size(); ++i) Set(product_[i], 3 * Value(i));
    for (int i = 0; i < columns_; ++i) bias_.push_back(Value(1000000 + i));
    for (int i = 0; i < shape.head_dim; ++i) {
      query_norm_.push_back(1 + Value(2000000 + i) / 2);
      key_norm_.push_back(1 + Value(3000000 + i) / 2);
    }
    for (int position = 0; position < 71; ++position) {
      for (int i = 0; i < shape.head_dim; ++i) {
        const double angle =
            position * std::pow(100.0, -2.0 * (i % (shape.head_dim / 2)) / shape.head_dim);
        rope_.push_back(
            static_cast<float>(i < shape.head_dim / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
    step_.pool.assign(step_.pool.size(), {0x7FFF});
    step_.query.assign(step_.query.size(), {0x7FFF});
  }

  emulator::Report Run(int num_blocks = 2) {
    const AppendArgs args = {.step = &step_.header(),
                             .product = product_.data(),
                             .bias = shape_.has_bias ? bias_.data() : nullptr,
                             .query_norm = shape_.has_norms ? query_norm_.data() : nullptr,
                             .key_norm = shape_.has_norms ? key_norm_.data() : nullptr,
                             .norm_epsilon = 1e-6F,
                             .rope = rope_.data(),
                             .query = step_.query.data(),
                             .pool = step_.pool.data(),
                             .layout = step_.layout(),
                             .num_heads = shape_.num_heads};
    return emulator::Run<Append<T>>({.num_blocks = num_blocks}, args);
  }

  void ExpectDone() {
    const std::vector<dev::bf16> pool = step_.pool;
    size_t num_stored = 0;
    const int heads = shape_.num_heads + 2 * shape_.num_kv_heads;
    for (int token = 0; token < step_.num_tokens(); ++token) {
      for (int head = 0; head < heads; ++head) {
        const std::vector<double> expected = Expected(token, head);
        for (int dim = 0; dim < shape_.head_dim; ++dim) {
          const double result = dev::ToFloat(Result(token, head, dim));
          ASSERT_NEAR(result, expected[dim], 1e-5 + std::fabs(expected[dim]) / 250)
              << token << " " << head << " " << dim;
          num_stored += head >= shape_.num_heads;
        }
      }
    }
    size_t num_set = 0;
    for (const dev::bf16 x : pool) num_set += x.bits != 0x7FFF;
    EXPECT_EQ(num_set, num_stored);
  }

  AttentionCase& step() { return step_; }

 private:
  dev::bf16 Result(int token, int head, int dim) {
    if (head < shape_.num_heads) {
      return step_.query[(token * shape_.num_heads + head) * shape_.head_dim + dim];
    }
    const int sequence = token < step_.token_begin[1] ? 0 : 1;
    const int position = step_.positions[token], kv = head - shape_.num_heads;
    const int page =
        static_cast<int>(step_.blocks[step_.block_begin[sequence] + position / shape_.page_size]);
    const KvPart part = kv < shape_.num_kv_heads ? KvPart::kKey : KvPart::kValue;
    return step_.pool[step_.layout().Offset(page, part, kv % shape_.num_kv_heads,
                                            position % shape_.page_size, dim)];
  }

  std::vector<double> Expected(int token, int head) const {
    const int size = shape_.head_dim, half = size / 2;
    std::vector<double> x;
    double squares = 0;
    for (int dim = 0; dim < size; ++dim) {
      const int column = head * size + dim;
      x.push_back(NumberOf(product_[static_cast<size_t>(token) * columns_ + column]) +
                  (shape_.has_bias ? bias_[column] : 0));
      squares += x.back() * x.back();
    }
    if (head >= shape_.num_heads + shape_.num_kv_heads) return x;
    if (shape_.has_norms) {
      const auto& weight = head < shape_.num_heads ? query_norm_ : key_norm_;
      for (int dim = 0; dim < size; ++dim) {
        x[dim] *= weight[dim] / std::sqrt(squares / size + 1e-6);
      }
    }
    std::vector<double> rotated(x);
    const float* rope = rope_.data() + step_.positions[token] * size;
    for (int i = 0; i < half; ++i) {
      rotated[i] = x[i] * rope[i] - x[half + i] * rope[half + i];
      rotated[half + i] = x[half + i] * rope[i] + x[i] * rope[half + i];
    }
    return rotated;
  }

  AppendShape shape_;
  AttentionCase step_;
  int columns_ = 0;
  std::vector<T> product_;
  std::vector<float> bias_, query_norm_, key_norm_, rope_;
};

template <class T>
void ExpectAppended(const AppendShape& shape) {
  AppendProblem<T> problem(shape);
  ASSERT_EQ(problem.Run().fault, "");
  problem.ExpectDone();
}

TEST(Append, RotatesAndStoresHeadsOfAnySize) {
  for (const int head_dim : {8, 24, 64, 80, 128, 256}) {
    SCOPED_TRACE(head_dim);
    ExpectAppended<float>({.head_dim = head_dim});
    ExpectAppended<dev::bf16>({.head_dim = head_dim});
  }
}

TEST(Append, StoresToPagesOfEverySize) {
  for (const int page_size : {16, 32, 64}) ExpectAppended<float>({.page_size = page_size});
}

TEST(Append, DoesWithoutBiasAndNorms) {
  ExpectAppended<float>({.has_bias = false, .has_norms = false});
  ExpectAppended<float>({.has_bias = false});
  ExpectAppended<float>({.num_heads = 7, .num_kv_heads = 1, .has_norms = false});
}

TEST(Append, LeavesTokensWithoutASlotAlone) {
  AppendProblem<float> problem({});
  auto* rows = reinterpret_cast<StepRow*>(problem.step().plan() + problem.step().header().rows);
  for (int token = 0; token < problem.step().num_tokens(); ++token) rows[token].slot = -1;
  ASSERT_EQ(problem.Run().fault, "");
  for (const dev::bf16 x : problem.step().pool) ASSERT_EQ(x.bits, 0x7FFF);
}

}  // namespace
}  // namespace incipit::cuda
