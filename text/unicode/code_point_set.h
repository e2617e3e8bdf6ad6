// A set of characters, and a map from characters to 8-bit numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace incipit {

struct CodePointRange {
  char32_t first, last;
};

// A set of characters, stored as ranges in ascending order with gaps between the ranges.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }

  // Adds the characters from `first` to `last` inclusive. Ranges are added fastest in ascending
  // order.
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

// Stores a value from 0 to 255 for every character; the initial value is 0. A lookup reads from
// memory twice.
class CodePointMap {
 public:
  CodePointMap() : pages_(kNumPages, 0), values_(kPageSize, 0) {}

  // Sets the stored value of every character in `set` to `value`.
  void Assign(const CodePointSet& set, uint8_t value);
  // Sets the bits `bits` in the stored value of every character in `set`. The other bits do not
  // change.
  void AddBits(const CodePointSet& set, uint8_t bits);
  void AddBits(char32_t code_point, uint8_t bits) { ValueOf(code_point) |= bits; }
  uint8_t operator[](char32_t code_point) const {
    return values_[pages_[code_point / kPageSize] * kPageSize + code_point % kPageSize];
  }

 private:
  static constexpr size_t kPageSize = 128;
  static constexpr size_t kNumPages = 0x110000 / kPageSize;

  uint8_t& ValueOf(char32_t code_point);

  // The values are stored in pages of 128 characters. pages_[c / 128] is the index of the page for
  // character c. Page 0 contains only zeros.
  std::vector<uint16_t> pages_;
  std::vector<uint8_t> values_;
};

}  // namespace incipit
