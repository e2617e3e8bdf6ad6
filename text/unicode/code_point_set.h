// Sets of characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace incipit {

struct CodePointRange {
  char32_t first, last;
};

// A set as the sorted ranges it consists of; no two touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }

  // Fast where ranges are added in order.
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

// A small number for every character, looked up in two steps.
class CodePointMap {
 public:
  CodePointMap() : pages_(kNumPages, 0), values_(kPageSize, 0) {}

  // Gives `value` to every character of the set. Later calls win.
  void Assign(const CodePointSet& set, uint8_t value);
  // Sets bits in the value of every character of the set.
  void AddBits(const CodePointSet& set, uint8_t bits);
  void AddBits(char32_t code_point, uint8_t bits) { ValueOf(code_point) |= bits; }
  uint8_t operator[](char32_t code_point) const {
    return values_[pages_[code_point / kPageSize] * kPageSize + code_point % kPageSize];
  }

 private:
  static constexpr size_t kPageSize = 128;
  static constexpr size_t kNumPages = 0x110000 / kPageSize;

  uint8_t& ValueOf(char32_t code_point);

  std::vector<uint16_t> pages_;  // into `values_`; page 0 is of zeros and shared
  std::vector<uint8_t> values_;
};

}  // namespace incipit
