#include "text/unicode/utf8.h"

namespace incipit {
namespace {

struct ByteBounds {
  unsigned char low, high;
};

// Returns the range of allowed second bytes of a UTF-8 character with the first byte `first`.
// Returns the empty range {1, 0} if no UTF-8 character of several bytes begins with `first`.
ByteBounds SecondByteBounds(unsigned char first) {
  if (first < 0xC2 || first > 0xF4) return {1, 0};
  switch (first) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

}  // namespace

Utf8Step NextUtf8Step(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {1, Utf8Step::kCharacter};
  ByteBounds bounds = SecondByteBounds(first);
  if (bounds.low > bounds.high) return {1, Utf8Step::kInvalid};
  const size_t length = Utf8Length(bytes[0]);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Utf8Step::kIncomplete};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < bounds.low || byte > bounds.high) return {i, Utf8Step::kInvalid};
    bounds = {0x80, 0xBF};
  }
  return {length, Utf8Step::kCharacter};
}

bool IsUtf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    if (AreAscii(text, position)) {
      position += sizeof(uint64_t);
      continue;
    }
    const Utf8Step step = NextUtf8Step(text.substr(position));
    if (step.kind != Utf8Step::kCharacter) return false;
    position += step.length;
  }
  return true;
}

void AppendUtf8(char32_t code_point, std::string& text) {
  char bytes[4];
  size_t length = 0;
  const auto put = [&](char32_t byte) { bytes[length++] = static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
  text.append(bytes, length);
}

void Utf8Repair::Push(std::string_view bytes, std::string& text) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const Utf8Step step = NextUtf8Step(bytes);
    if (step.kind == Utf8Step::kIncomplete) {
      pending_ = bytes;
      return;
    }
    text +=
        step.kind == Utf8Step::kCharacter ? bytes.substr(0, step.length) : kReplacementCharacter;
    bytes.remove_prefix(step.length);
  }
}

void Utf8Repair::Flush(std::string& text) {
  if (!pending_.empty()) text += kReplacementCharacter;
  pending_.clear();
}

}  // namespace incipit
