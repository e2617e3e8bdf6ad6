// Sets of characters, and maps from characters to small numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace incipit {

struct CodePointRange {
  char32_t first, last;
};

// A set of characters as a sorted list of ranges. No two ranges overlap or touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }

  // Adds the characters from `first` to `last`. Fast if ranges are added in ascending order.
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

// Maps every character to a number from 0 to 255. A lookup reads two arrays.
class CodePointMap {
 public:
  CodePointMap() : pages_(kNumPages, 0), values_(kPageSize, 0) {}

  // Sets the value of every character of `set` to `value`. A later call replaces the values of an
  // earlier call.
  void Assign(const CodePointSet& set, uint8_t value);
  // Sets `bits` in the value of every character of `set`.
  void AddBits(const CodePointSet& set, uint8_t bits);
  void AddBits(char32_t code_point, uint8_t bits) { ValueOf(code_point) |= bits; }
  uint8_t operator[](char32_t code_point) const {
    return values_[pages_[code_point / kPageSize] * kPageSize + code_point % kPageSize];
  }

 private:
  static constexpr size_t kPageSize = 128;
  static constexpr size_t kNumPages = 0x110000 / kPageSize;

  uint8_t& ValueOf(char32_t code_point);

  // For each range of 128 characters: the number of the page in `values_` that holds their values.
  // Page 0 holds only zeros.
  std::vector<uint16_t> pages_;
  std::vector<uint8_t> values_;
};

}  // namespace incipit
