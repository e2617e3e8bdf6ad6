#include "text/jinja/runtime/text.h"

#include <algorithm>

#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// The first range that ends after `offset`.
std::vector<ByteRange>::const_iterator RangeAfter(const std::vector<ByteRange>& ranges,
                                                  size_t offset) {
  return std::upper_bound(ranges.begin(), ranges.end(), offset,
                          [](size_t value, const ByteRange& range) { return value < range.end; });
}

}  // namespace

Text::~Text() {
  if (live_bytes != nullptr) *live_bytes -= counted_bytes;
}

size_t Text::OffsetOf(size_t char_index) const {
  return is_ascii() ? char_index : OffsetOfChar(bytes, 0, char_index);
}

size_t Text::CharIndexOf(size_t offset) const {
  return is_ascii() ? offset : CountCodePoints(std::string_view(bytes).substr(0, offset));
}

bool Text::IsLiteralAt(size_t offset) const {
  const auto it = RangeAfter(literal, offset);
  return it != literal.end() && it->begin <= offset;
}

void TextBuilder::Append(std::string_view bytes, Origin origin) {
  if (origin == Origin::kRequest) Mark(bytes_.size(), bytes_.size() + bytes.size());
  bytes_ += bytes;
}

void TextBuilder::Append(const Text& text, size_t begin, size_t end) {
  const size_t base = bytes_.size();
  for (auto it = RangeAfter(text.literal, begin); it != text.literal.end() && it->begin < end;
       ++it) {
    Mark(base + std::max(it->begin, begin) - begin, base + std::min(it->end, end) - begin);
  }
  bytes_.append(text.bytes, begin, end - begin);
}

void TextBuilder::Mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == begin) {
    literal_.back().end = end;
  } else {
    literal_.push_back({begin, end});
  }
}

TextPtr MakeConstantText(std::string bytes) {
  auto text = std::make_shared<Text>();
  text->num_chars = CountCodePoints(bytes);
  text->bytes = std::move(bytes);
  return text;
}

}  // namespace incipit::jinja
