// Strings that remember which of their bytes a client wrote. Every string of a template is a Text;
// what slices, joins or maps one keeps the marks of the characters it came from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace incipit::jinja {

class Heap;

// Immutable once it is in a value. UTF-8, lone surrogates in their three-byte form.
struct Text {
  std::string bytes;
  std::vector<ByteRange> literal;  // ascending, neither touching nor overlapping
  size_t num_chars = 0;
  size_t* live_bytes = nullptr;  // where its memory is counted, if anywhere
  size_t counted_bytes = 0;

  Text() = default;
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text();

  bool is_ascii() const { return num_chars == bytes.size(); }
  // REQUIRES: char_index <= num_chars.
  size_t OffsetOf(size_t char_index) const;
  size_t CharIndexOf(size_t offset) const;
  bool IsLiteralAt(size_t offset) const;
};
using TextPtr = std::shared_ptr<const Text>;

// Where the characters that are appended come from.
enum class Origin : uint8_t { kTemplate, kRequest };

// Collects a Text. Unlimited by itself: Heap::Finish and Heap::CheckSize hold it to the limits.
class TextBuilder {
 public:
  void Append(std::string_view bytes, Origin origin = Origin::kTemplate);
  void Append(const Text& text) { Append(text, 0, text.bytes.size()); }
  void Append(const Text& text, size_t begin, size_t end);  // a range of bytes

  size_t size() const { return bytes_.size(); }
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }

  std::string TakeBytes() { return std::move(bytes_); }
  std::vector<ByteRange> TakeLiteral() { return std::move(literal_); }

 private:
  void Mark(size_t begin, size_t end);

  std::string bytes_;
  std::vector<ByteRange> literal_;
};

// A Text that no rendering owns: the constants of a template.
TextPtr MakeConstantText(std::string bytes);

}  // namespace incipit::jinja
