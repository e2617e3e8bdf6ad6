// Strings with marks for the bytes that a client wrote. Every string of a template is a Text.
// Operations that slice, join or map strings keep the marks of the characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit::jinja {

class Heap;
struct Text;

// The origin of appended characters: the template itself, or the request of a client.
enum class Origin : uint8_t { kTemplate, kRequest };

// Collects a Text without a limit. Heap::Finish() and Heap::CheckSize() enforce the limits.
class TextBuilder {
 public:
  void Append(std::string_view bytes, Origin origin = Origin::kTemplate);
  void Append(const Text& text);
  void Append(const Text& text, size_t begin, size_t end);  // bytes [begin, end)

  size_t size() const { return bytes_.size(); }
  size_t capacity() const { return bytes_.capacity(); }
  size_t memory_bytes() const { return capacity() + literal_.size() * sizeof(ByteRange); }
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }

 private:
  friend struct Text;
  void Mark(size_t begin, size_t end);
  // Marks what is about to be appended as the range of `text` is marked.
  void MarkAs(const Text& text, size_t begin, size_t end);

  std::string bytes_;
  absl::InlinedVector<ByteRange, 1> literal_;  // ascending, neither touching nor overlapping
};

// The bytes of a Text never change and never move, but longer Texts may share them: a
// concatenation appends to what its left operand begins, if there is room (Heap::Concatenate).
struct Text {
  std::string_view bytes;  // UTF-8, lone surrogates in their three-byte form
  size_t num_chars = 0;

  explicit Text(TextBuilder&& text);
  // The beginning of `shared`, which is as long as it is now.
  Text(Text& shared, size_t num_characters);
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  bool is_ascii() const { return num_chars == bytes.size(); }
  // REQUIRES: char_index <= num_chars.
  size_t OffsetOf(size_t char_index) const;
  size_t CharIndexOf(size_t offset) const;
  bool has_literal() const;
  std::vector<ByteRange> LiteralRanges() const;
  // The end of the longest part of one origin from `offset` on, and that origin.
  std::pair<size_t, Origin> PartFrom(size_t offset) const;

 private:
  friend class Heap;
  friend class TextBuilder;
  friend class Value;

  const TextBuilder& content() const { return owner_ == nullptr ? content_ : owner_->content_; }

  Heap* heap_ = nullptr;         // that made it; null for a constant of a template
  mutable size_t num_uses_ = 0;  // values and texts that keep it alive, if a heap made it
  Text* owner_ = nullptr;        // whose content it is a part of, if not its own
  TextBuilder content_;
  size_t counted_bytes_ = 0;
};

}  // namespace incipit::jinja
