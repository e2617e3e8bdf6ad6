// A set of characters, and a map from characters to numbers of 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace incipit {

struct CodePointRange {
  char32_t first, last;
};

// A set of characters, stored as ranges in ascending order. The ranges do not overlap and are not
// adjacent.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }

  // Adds the characters from `first` to `last` inclusive. Calls are fastest if the ranges are in
  // ascending order.
  void Add(char32_t first, char32_t last);
  void Add(const CodePointSet& other);
  void Remove(char32_t first, char32_t last);
  void IntersectWith(const CodePointSet& other);
  void Invert();

  bool Contains(char32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

// Maps every character to a number from 0 to 255, initially 0. A lookup needs two reads from
// memory.
class CodePointMap {
 public:
  CodePointMap() : pages_(kNumPages, 0), values_(kPageSize, 0) {}

  // Sets the number of every character in `set` to `value`.
  void Assign(const CodePointSet& set, uint8_t value);
  // Sets the bits of `bits` in the number of every character in `set`. The other bits of the number
  // do not change.
  void AddBits(const CodePointSet& set, uint8_t bits);
  void AddBits(char32_t code_point, uint8_t bits) { ValueOf(code_point) |= bits; }
  uint8_t operator[](char32_t code_point) const {
    return values_[pages_[code_point / kPageSize] * kPageSize + code_point % kPageSize];
  }

 private:
  static constexpr size_t kPageSize = 128;
  static constexpr size_t kNumPages = 0x110000 / kPageSize;

  uint8_t& ValueOf(char32_t code_point);

  // pages_[c / 128] is the index of the page (128 numbers) in `values_` that contains the number of
  // character c. Page 0 contains only zeros.
  std::vector<uint16_t> pages_;
  std::vector<uint8_t> values_;
};

}  // namespace incipit
