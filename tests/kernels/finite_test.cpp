#include "kernels/finite.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/numeric.h"

namespace incipit {
namespace {

struct Case {
  DType dtype;
  // Bit patterns of the same type, as 32-bit numbers.
  std::vector<uint32_t> finite, not_finite;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {DType::kF32,
       {0, 0x80000000, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x007FFFFF, 0x55555555},
       {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF}},
      {DType::kF16,
       {0, 0x8000, 1, 0x7BFF, 0xFBFF, 0x3C00, 0x03FF, 0x5555},
       {0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF}},
      {DType::kBF16,
       {0, 0x8000, 1, 0x7F7F, 0xFF7F, 0x3F80, 0x007F, 0x5555},
       {0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF}},
  };
  return cases;
}

// The first number of each buffer is not aligned.
class Numbers {
 public:
  Numbers(DType dtype, size_t count) : dtype_(dtype), bytes_(count * ByteSize(dtype) + 1) {}

  void Set(size_t index, uint32_t bits) {
    std::memcpy(bytes_.data() + 1 + index * ByteSize(dtype_), &bits, ByteSize(dtype_));
  }
  bool AreFinite() const { return AllFinite(dtype_, std::span(bytes_).subspan(1)); }

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
};

TEST(FiniteTest, EveryFiniteNumberIsAccepted) {
  for (const Case& test : Cases()) {
    Numbers numbers(test.dtype, 1000);
    for (size_t i = 0; i < 1000; ++i) numbers.Set(i, test.finite[i % test.finite.size()]);
    EXPECT_TRUE(numbers.AreFinite()) << NameOf(test.dtype);
  }
}

TEST(FiniteTest, ANumberThatIsNotFiniteIsFoundAtEveryPosition) {
  for (const Case& test : Cases()) {
    for (const size_t count : {1, 2, 3, 17, 31, 32, 33, 100, 129}) {
      for (size_t at = 0; at < count; ++at) {
        Numbers numbers(test.dtype, count);
        for (size_t i = 0; i < count; ++i) numbers.Set(i, test.finite[i % test.finite.size()]);
        numbers.Set(at, test.not_finite[at % test.not_finite.size()]);
        EXPECT_FALSE(numbers.AreFinite()) << NameOf(test.dtype) << " " << at << " of " << count;
      }
    }
  }
}

TEST(FiniteTest, ANumberThatIsNotFiniteIsFoundInEveryPartOfALargeBuffer) {
  for (const Case& test : Cases()) {
    constexpr size_t kCount = 40'000;
    for (size_t at = 0; at < kCount; at += 997) {
      Numbers numbers(test.dtype, kCount);
      ASSERT_TRUE(numbers.AreFinite());
      numbers.Set(at, test.not_finite.front());
      EXPECT_FALSE(numbers.AreFinite()) << NameOf(test.dtype) << " " << at;
    }
  }
}

// Every 16-bit number is compared with the conversion to f32.
TEST(FiniteTest, AgreesWithTheConversionToF32) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      std::vector<std::byte> bytes(2 * 64);
      std::memcpy(bytes.data() + bits % 64 * 2, &bits, 2);
      const float value = LoadF32(bytes.data(), dtype, bits % 64);
      ASSERT_EQ(AllFinite(dtype, bytes), value - value == 0) << NameOf(dtype) << " " << bits;
    }
  }
}

}  // namespace
}  // namespace incipit
