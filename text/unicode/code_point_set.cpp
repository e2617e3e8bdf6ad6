#include "text/unicode/code_point_set.h"

#include <algorithm>

#include "text/unicode/utf8.h"

namespace incipit {

void CodePointSet::Add(char32_t first, char32_t last) {
  if (ranges_.empty() || ranges_.back().last + 1 < first) {
    ranges_.push_back({first, last});
    return;
  }
  // Find the ranges in `ranges_` that overlap or touch the new range.
  const auto begin = std::ranges::lower_bound(
      ranges_, first, {}, [](const CodePointRange& range) { return range.last + 1; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CodePointSet::Add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) Add(range.first, range.last);
}

void CodePointSet::Remove(char32_t first, char32_t last) {
  CodePointSet rest({{first, last}});
  rest.Invert();
  IntersectWith(rest);
}

void CodePointSet::IntersectWith(const CodePointSet& other) {
  std::vector<CodePointRange> common;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const char32_t first = std::max(a->first, b->first);
    const char32_t last = std::min(a->last, b->last);
    if (first <= last) common.push_back({first, last});
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  ranges_ = std::move(common);
}

void CodePointSet::Invert() {
  std::vector<CodePointRange> inverse;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) inverse.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kCodePointMax) inverse.push_back({next, kCodePointMax});
  ranges_ = std::move(inverse);
}

bool CodePointSet::Contains(char32_t code_point) const {
  const auto range = std::ranges::lower_bound(ranges_, code_point, {}, &CodePointRange::last);
  return range != ranges_.end() && range->first <= code_point;
}

void CodePointMap::Assign(const CodePointSet& set, uint8_t value) {
  for (const auto& [first, last] : set.ranges()) {
    for (char32_t c = first; c <= last; ++c) ValueOf(c) = value;
  }
}

void CodePointMap::AddBits(const CodePointSet& set, uint8_t bits) {
  for (const auto& [first, last] : set.ranges()) {
    for (char32_t c = first; c <= last; ++c) ValueOf(c) |= bits;
  }
}

uint8_t& CodePointMap::ValueOf(char32_t code_point) {
  uint16_t& page = pages_[code_point / kPageSize];
  if (page == 0) {
    page = static_cast<uint16_t>(values_.size() / kPageSize);
    values_.resize(values_.size() + kPageSize, 0);
  }
  return values_[page * kPageSize + code_point % kPageSize];
}

}  // namespace incipit
