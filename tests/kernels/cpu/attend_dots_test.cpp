// Tests attention by bf16 dot instructions, both with the instruction of the machine and with its
// emulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/numeric.h"
#include "tests/kernels/cpu/emulated_dots.h"

namespace incipit {
namespace {

constexpr int kBF16 = static_cast<int>(DType::kBF16);
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLog2OfE = 1.44269504f;

struct Shape {
  int32_t head_dim = 64, num_heads = 1, num_positions = 100, block_size = 16, window = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "head_dim " << s.head_dim << ", " << s.num_heads << " heads, " << s.num_positions
             << " positions, blocks of " << s.block_size << ", window " << s.window;
}

float Random(uint64_t seed, int64_t index) {
  const uint64_t bits = RandomBits(seed, 0, static_cast<uint64_t>(index));
  return static_cast<float>(bits >> 40) * 0x1p-23f - 1;
}

// The keys and values of one sequence and one KV head. The block table is in descending order.
// Slots that were not written contain NaN.
class Memory {
 public:
  explicit Memory(const Shape& shape)
      : shape_(shape), blocks_((shape.num_positions - 1) / shape.block_size + 1) {
    std::iota(blocks_.rbegin(), blocks_.rend(), 0);
    data_.assign(blocks_.size() * static_cast<size_t>(stride()) + 64, NarrowBF16(kNaN));
    for (int32_t p = 0; p < shape.num_positions; ++p) {
      for (int32_t d = 0; d < shape.head_dim; ++d) Value(p, d) = NarrowBF16(Random(1, Index(p, d)));
    }
  }

  int64_t Index(int64_t position, int64_t d) const { return position * shape_.head_dim + d; }
  uint16_t& Key(int64_t position, int64_t d) {
    const int64_t group = std::min(16, shape_.block_size), slot = position % shape_.block_size;
    return Block(position)[slot / group * group * shape_.head_dim + d * group + slot % group];
  }
  uint16_t& Value(int64_t position, int64_t d) {
    return Block(
        position)[(shape_.block_size + position % shape_.block_size) * shape_.head_dim + d];
  }
  void SetKeys(float scale) {
    for (int32_t p = 0; p < shape_.num_positions; ++p) {
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        Key(p, d) = NarrowBF16(scale * Random(2, Index(p, d)));
      }
    }
  }
  // From here on, everything is NaN.
  void Poison(int64_t position) {
    for (int64_t p = position; p < shape_.num_positions; ++p) {
      for (int32_t d = 0; d < shape_.head_dim; ++d) Key(p, d) = Value(p, d) = NarrowBF16(kNaN);
    }
  }

  simd::KvView view() const {
    return {.data = data_.data(),
            .block_stride = stride(),
            .head_stride = stride(),
            .blocks = blocks_.data(),
            .block_size = shape_.block_size,
            .head_dim = shape_.head_dim};
  }

 private:
  int64_t stride() const { return int64_t{2} * shape_.block_size * shape_.head_dim; }
  uint16_t* Block(int64_t position) {
    return data_.data() + blocks_[static_cast<size_t>(position / shape_.block_size)] * stride();
  }

  Shape shape_;
  std::vector<int32_t> blocks_;
  std::vector<uint16_t> data_;
};

// [token][head][head_dim]
using Rows = std::vector<float>;

class AttendDotsTest : public testing::TestWithParam<const simd::Kernels*> {
 protected:
  static constexpr float kScale = 0.21f;

  static int64_t RowSize(const Shape& shape) { return int64_t{shape.num_heads} * shape.head_dim; }

  // Of all positions.
  static Rows Query(const Shape& shape) {
    Rows query(static_cast<size_t>(shape.num_positions * RowSize(shape)));
    for (size_t i = 0; i < query.size(); ++i) query[i] = Random(3, static_cast<int64_t>(i));
    return query;
  }

  // Returns the attention of the tokens [first, first + num_tokens). `query` contains the queries
  // of all tokens.
  static Rows Attend(const Shape& shape, const Memory& memory, const Rows& query, int32_t first,
                     int32_t num_tokens, bool in_splits = false) {
    const simd::Kernels& kernels = *GetParam();
    const int64_t num_rows = int64_t{num_tokens} * shape.num_heads;
    Rows out(static_cast<size_t>(num_tokens * RowSize(shape)), kNaN);
    std::vector<float> scratch(static_cast<size_t>(
        kernels.attend_scratch_floats((num_rows + 15) / 16 * 16, shape.head_dim)));
    const int32_t last = first + num_tokens - 1;
    const int32_t oldest = shape.window > 0 ? std::max(0, first + 1 - shape.window) : 0;
    simd::AttendArgs args = {.kv = memory.view(),
                             .query = query.data() + first * RowSize(shape),
                             .out = out.data(),
                             .token_stride = RowSize(shape),
                             .first_position = first,
                             .num_tokens = num_tokens,
                             .num_heads = shape.num_heads,
                             .num_groups = 1,
                             .window = shape.window,
                             .scale = kScale,
                             .split_begin = static_cast<int32_t>(oldest / simd::kSplit),
                             .split_end = static_cast<int32_t>(last / simd::kSplit + 1),
                             .scratch = scratch.data(),
                             .states = nullptr};
    std::vector<float> states;
    if (in_splits) {
      states.resize(static_cast<size_t>((args.split_end - args.split_begin) *
                                        kernels.attend_state_floats(num_rows, shape.head_dim)));
      args.states = states.data();
    }
    kernels.attend[kBF16](args);
    if (in_splits) kernels.attend_combine[kBF16](args);
    return out;
  }

  static std::pair<int32_t, int32_t> Seen(const Shape& shape, int32_t token) {
    return {shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0, token + 1};
  }
};

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {.head_dim = 16, .num_heads = 1, .num_positions = 70},
      {.head_dim = 48, .num_heads = 3, .num_positions = 100, .window = 37},
      {.head_dim = 64, .num_heads = 7, .num_positions = 133, .block_size = 32},
      {.head_dim = 80, .num_heads = 2, .num_positions = 90, .block_size = 4, .window = 20},
      {.head_dim = 96, .num_heads = 4, .num_positions = 140, .window = 65},
      {.head_dim = 128, .num_heads = 4, .num_positions = 129, .block_size = 1},
      {.head_dim = 256, .num_heads = 8, .num_positions = 66},
      {.head_dim = 64, .num_heads = 1, .num_positions = 2100, .window = 1501},
  };
  return shapes;
}

// All keys are equal, so all softmax weights are 1 before the division by their sum. Only sums are
// rounded.
TEST_P(AttendDotsTest, EqualKeysGiveTheMeanOfTheValuesSeen) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    Memory memory(shape);
    memory.SetKeys(0);
    const int32_t first = shape.num_positions - 30;
    const Rows out = Attend(shape, memory, Query(shape), first, 29);
    for (int32_t token = first; token < first + 29; ++token) {
      const auto [begin, end] = Seen(shape, token);
      for (int64_t i = 0; i < RowSize(shape); ++i) {
        double sum = 0;
        for (int32_t p = begin; p < end; ++p) {
          sum += WidenBF16(memory.Value(p, i % shape.head_dim));
        }
        ASSERT_NEAR(out[static_cast<size_t>((token - first) * RowSize(shape) + i)],
                    sum / (end - begin), 1e-6)
            << "token " << token << ", element " << i;
      }
    }
  }
}

// If one position has a softmax weight of 1 and all others have 0, the result has the bits of the
// value at this position.
TEST_P(AttendDotsTest, AKeyThatStandsOutGivesItsValue) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const int32_t last = shape.num_positions - 1;
    const auto [begin, end] = Seen(shape, last);
    const Rows query(static_cast<size_t>(shape.num_positions * RowSize(shape)), 1.0f);
    for (int32_t chosen = begin; chosen<end; chosen += end - chosen> 200 ? 97 : 1) {
      Memory memory(shape);
      memory.SetKeys(0);
      for (int32_t d = 0; d < shape.head_dim; ++d) memory.Key(chosen, d) = NarrowBF16(1000);
      const Rows out = Attend(shape, memory, query, last, 1);
      for (int64_t i = 0; i < RowSize(shape); ++i) {
        ASSERT_EQ(out[static_cast<size_t>(i)], WidenBF16(memory.Value(chosen, i % shape.head_dim)))
            << "position " << chosen << ", element " << i;
      }
    }
  }
}

// Compares with sums in double over the same rounded queries. Each softmax weight is rounded by at
// most 2^-9 of itself. The denominator adds the rounded weights, so the mean of the values moves by
// at most 2^-8 of the largest value.
TEST_P(AttendDotsTest, AgreesWithSumsInDouble) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    Memory memory(shape);
    memory.SetKeys(2);
    const Rows query = Query(shape);
    const int32_t first = shape.num_positions - 25;
    const Rows out = Attend(shape, memory, query, first, 25);
    double worst = 0;
    for (int32_t token = first; token < shape.num_positions; ++token) {
      const auto [begin, end] = Seen(shape, token);
      for (int32_t head = 0; head < shape.num_heads; ++head) {
        const float* const q = query.data() + token * RowSize(shape) + head * shape.head_dim;
        std::vector<double> means(static_cast<size_t>(shape.head_dim));
        double total = 0;
        for (int32_t p = begin; p < end; ++p) {
          double score = 0;
          for (int32_t d = 0; d < shape.head_dim; ++d) {
            const float rounded = WidenBF16(NarrowBF16(q[d] * (kScale * kLog2OfE)));
            score += double{rounded} * WidenBF16(memory.Key(p, d));
          }
          const double weight = std::exp2(score);
          total += weight;
          for (int32_t d = 0; d < shape.head_dim; ++d) {
            means[static_cast<size_t>(d)] += weight * WidenBF16(memory.Value(p, d));
          }
        }
        for (int32_t d = 0; d < shape.head_dim; ++d) {
          const auto index =
              static_cast<size_t>((token - first) * RowSize(shape) + head * shape.head_dim + d);
          const double error = std::fabs(out[index] - means[static_cast<size_t>(d)] / total);
          worst = std::max(worst, std::isnan(error) ? 1 : error);
        }
      }
    }
    EXPECT_LE(worst, 0x1p-8 + 1e-5);
  }
}

// The bits of a row do not depend on the number of rows, on the other rows, on splits, or on
// positions that the row does not attend to.
TEST_P(AttendDotsTest, ARowHasTheSameBitsAloneAndAmongOthers) {
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    Memory memory(shape);
    memory.SetKeys(2);
    const Rows query = Query(shape);
    const int32_t first = shape.num_positions - 20;
    const Rows together = Attend(shape, memory, query, first, 20);
    EXPECT_EQ(Attend(shape, memory, query, first, 20, true), together);
    for (int32_t token = shape.num_positions - 1; token >= first; --token) {
      Shape alone = shape;
      alone.num_heads = 1;
      memory.Poison(token + 1);
      for (int32_t head = 0; head < shape.num_heads; ++head) {
        Rows own(static_cast<size_t>(shape.num_positions * shape.head_dim));
        std::copy_n(query.begin() + token * RowSize(shape) + head * shape.head_dim, shape.head_dim,
                    own.begin() + int64_t{token} * shape.head_dim);
        const Rows row = Attend(alone, memory, own, token, 1);
        const float* const expected =
            together.data() + (token - first) * RowSize(shape) + head * shape.head_dim;
        for (int32_t d = 0; d < shape.head_dim; ++d) {
          ASSERT_EQ(std::bit_cast<uint32_t>(row[static_cast<size_t>(d)]),
                    std::bit_cast<uint32_t>(expected[d]))
              << "token " << token << ", head " << head << ", element " << d;
        }
      }
    }
  }
}

// Attention over heads whose size is not a multiple of 16 does not use bf16 dot instructions. It
// converts keys and values to f32, and does not round softmax weights.
TEST_P(AttendDotsTest, HeadsThatDotsDoNotFitAreWidened) {
  const Shape shape = {.head_dim = 24, .num_positions = 40};
  Memory memory(shape);
  memory.SetKeys(2);
  const Rows query = Query(shape);
  const Rows out = Attend(shape, memory, query, 39, 1);
  double total = 0;
  std::vector<double> means(24);
  for (int32_t p = 0; p < 40; ++p) {
    double score = 0;
    for (int32_t d = 0; d < 24; ++d) {
      score +=
          double{query[static_cast<size_t>(39 * 24 + d)]} * kScale * WidenBF16(memory.Key(p, d));
    }
    total += std::exp(score);
    for (int32_t d = 0; d < 24; ++d) {
      means[static_cast<size_t>(d)] += std::exp(score) * WidenBF16(memory.Value(p, d));
    }
  }
  for (size_t d = 0; d < 24; ++d) EXPECT_NEAR(out[d], means[d] / total, 1e-5);
}

std::vector<const simd::Kernels*> DotKernels() {
  std::vector<const simd::Kernels*> found;
  for (const simd::Kernels* const kernels : simd::SupportedKernels()) {
    if (std::string(kernels->name) == "avx512_bf16") found.push_back(kernels);
  }
  if (simd::EmulatedDotKernels() != nullptr) found.push_back(simd::EmulatedDotKernels());
  return found;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttendDotsTest);
INSTANTIATE_TEST_SUITE_P(InstructionSets, AttendDotsTest, testing::ValuesIn(DotKernels()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace incipit
