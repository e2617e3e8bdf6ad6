#include "text/jinja/runtime/text.h"

#include <algorithm>
#include <utility>

#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// Returns an iterator to the first range in `ranges` whose end is greater than `offset`.
template <typename Ranges>
auto RangeAfter(const Ranges& ranges, size_t offset) {
  return std::upper_bound(ranges.begin(), ranges.end(), offset,
                          [](size_t value, const ByteRange& range) { return value < range.end; });
}

}  // namespace

Text::Text(TextBuilder&& text) : content_(std::move(text)) {
  bytes = content_.bytes_;
  num_chars = CountCodePoints(bytes);
}

Text::Text(Text& shared, size_t num_characters)
    : bytes(shared.content_.bytes_), num_chars(num_characters), owner_(&shared) {}

size_t Text::OffsetOf(size_t char_index) const {
  if (char_index == num_chars) return bytes.size();
  return is_ascii() ? char_index : OffsetOfChar(bytes, 0, char_index);
}

size_t Text::CharIndexOf(size_t offset) const {
  return is_ascii() ? offset : CountCodePoints(bytes.substr(0, offset));
}

std::pair<size_t, Origin> Text::PartFrom(size_t offset) const {
  const auto it = RangeAfter(content().literal_, offset);
  const bool is_literal = it != content().literal_.end() && it->begin <= offset;
  const size_t end = it == content().literal_.end() ? bytes.size()
                     : is_literal                   ? it->end
                                                    : it->begin;
  return {std::min(end, bytes.size()), is_literal ? Origin::kRequest : Origin::kTemplate};
}

bool Text::has_literal() const {
  const auto& ranges = content().literal_;
  return !ranges.empty() && ranges.front().begin < bytes.size();
}

std::vector<ByteRange> Text::LiteralRanges() const {
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : content().literal_) {
    if (range.begin >= bytes.size()) break;
    ranges.push_back({range.begin, std::min(range.end, bytes.size())});
  }
  return ranges;
}

void TextBuilder::Append(std::string_view bytes, Origin origin) {
  if (origin == Origin::kRequest) Mark(bytes_.size(), bytes_.size() + bytes.size());
  bytes_ += bytes;
}

void TextBuilder::Append(const Text& text) { Append(text, 0, text.bytes.size()); }

void TextBuilder::Append(const Text& text, size_t begin, size_t end) {
  if (text.has_literal()) MarkAs(text, begin, end);
  bytes_.append(text.bytes.substr(begin, end - begin));
}

void TextBuilder::MarkAs(const Text& text, size_t begin, size_t end) {
  const size_t base = bytes_.size();
  // `ranges` may belong to this TextBuilder. Then Mark() appends elements to `ranges`, which this
  // loop must not visit.
  const auto& ranges = text.content().literal_;
  const size_t num_ranges = ranges.size();
  for (size_t i = static_cast<size_t>(RangeAfter(ranges, begin) - ranges.begin());
       i < num_ranges && ranges[i].begin < end; ++i) {
    const ByteRange range = ranges[i];
    Mark(base + std::max(range.begin, begin) - begin, base + std::min(range.end, end) - begin);
  }
}

void TextBuilder::Mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == begin) {
    literal_.back().end = end;
  } else {
    literal_.push_back({begin, end});
  }
}

}  // namespace incipit::jinja
