#include "kernels/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace incipit {
namespace {

// A vector of 16 bytes, which every supported CPU has.
template <class Element>
using Vector [[gnu::vector_size(16)]] = Element;

// Returns true if all numbers are finite. A number is NaN or infinite if all bits of its exponent
// are 1. The sum of the exponent bits and their lowest bit then carries into the sign bit.
template <class Element, Element kExponent>
bool AllFiniteAs(std::span<const std::byte> bytes) {
  constexpr auto kLowest = static_cast<Element>(kExponent & (~kExponent + 1));
  constexpr auto kSign = static_cast<Element>(Element{1} << (8 * sizeof(Element) - 1));
  constexpr size_t kVectors = 4, kRun = kVectors * sizeof(Vector<Element>);
  // The loop over one piece has no branch. A piece is short, so that the function returns soon
  // after the first number that is not finite.
  constexpr size_t kPiece = size_t{16} << 10;
  while (bytes.size() >= kRun) {
    const std::byte* const end = bytes.data() + std::min(bytes.size() / kRun * kRun, kPiece);
    Vector<Element> carries[kVectors] = {};
    const std::byte* at = bytes.data();
    for (; at != end; at += kRun) {
      for (size_t i = 0; i < kVectors; ++i) {
        Vector<Element> numbers;
        std::memcpy(&numbers, at + i * sizeof(numbers), sizeof(numbers));
        carries[i] |= (numbers & kExponent) + kLowest;
      }
    }
    const Vector<Element> all = carries[0] | carries[1] | carries[2] | carries[3];
    Element carry = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(Element); ++i) carry |= all[i];
    if ((carry & kSign) != 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(end - bytes.data()));
  }
  for (; !bytes.empty(); bytes = bytes.subspan(sizeof(Element))) {
    Element number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    if ((number & kExponent) == kExponent) return false;
  }
  return true;
}

}  // namespace

bool AllFinite(DType dtype, std::span<const std::byte> bytes) {
  INCIPIT_CHECK(bytes.size() % ByteSize(dtype) == 0);
  switch (dtype) {
    case DType::kF32:
      return AllFiniteAs<uint32_t, 0x7F800000>(bytes);
    case DType::kF16:
      return AllFiniteAs<uint16_t, 0x7C00>(bytes);
    case DType::kBF16:
      return AllFiniteAs<uint16_t, 0x7F80>(bytes);
  }
  return false;
}

}  // namespace incipit
