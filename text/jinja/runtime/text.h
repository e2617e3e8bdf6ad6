// Strings that record which of their bytes a client wrote. Slices, joined strings and converted
// strings keep this information.
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

// The origin of a character: the template itself, or the request of a client.
enum class Origin : uint8_t { kTemplate, kRequest };

// Collects the bytes of a new string. A TextBuilder has no maximum size; Heap::Finish() and
// Heap::CheckSize() check the size.
class TextBuilder {
 public:
  void Append(std::string_view bytes, Origin origin = Origin::kTemplate);
  void Append(const Text& text);
  void Append(const Text& text, size_t begin, size_t end);

  size_t size() const { return bytes_.size(); }
  size_t capacity() const { return bytes_.capacity(); }
  size_t memory_bytes() const { return capacity() + literal_.size() * sizeof(ByteRange); }
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }

 private:
  friend struct Text;
  // Marks the bytes [begin, end) of the new string as written by a client.
  void Mark(size_t begin, size_t end);
  // Copies the marks of the bytes [begin, end) of `text` to the new string. A mark says that a
  // client wrote a byte. REQUIRES: the caller appends the bytes [begin, end) of `text` next.
  void MarkAs(const Text& text, size_t begin, size_t end);

  std::string bytes_;
  // Ranges of bytes that a client wrote, in ascending order and with gaps between ranges.
  absl::InlinedVector<ByteRange, 1> literal_;
};

// A string with marks for the bytes that a client wrote. The bytes of a Text never change and never
// move. Several Texts may share memory.
struct Text {
  std::string_view bytes;  // UTF-8; a lone surrogate is stored as three bytes
  size_t num_chars = 0;    // number of characters in `bytes`

  explicit Text(TextBuilder&& text);
  // Creates a Text with the current bytes of `shared`, without a copy of the bytes. If `shared` is
  // extended later, the new Text does not change.
  Text(Text& shared, size_t num_characters);
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  bool is_ascii() const { return num_chars == bytes.size(); }
  // Returns the byte offset of the character with index `char_index`. REQUIRES: `char_index` is at
  // most num_chars.
  size_t OffsetOf(size_t char_index) const;
  // Returns the number of characters before the byte with the offset `offset`.
  size_t CharIndexOf(size_t offset) const;
  // Returns true if the text contains a literal byte (a byte that a client wrote).
  bool has_literal() const;
  // Returns the ranges of bytes that a client wrote, in ascending order.
  std::vector<ByteRange> LiteralRanges() const;
  // Finds the longest range [offset, end) of bytes that are all written by the template or all by a
  // client. Returns `end` and the origin.
  std::pair<size_t, Origin> PartFrom(size_t offset) const;

 private:
  friend class Heap;
  friend class TextBuilder;
  friend class Value;

  const TextBuilder& content() const { return owner_ == nullptr ? content_ : owner_->content_; }

  Heap* heap_ = nullptr;         // heap that owns the Text; null for a constant string
  mutable size_t num_uses_ = 0;  // number of Values and Texts that use this Text
  Text* owner_ = nullptr;        // owner of the memory of `bytes`; null if this Text is the owner
  TextBuilder content_;
  size_t counted_bytes_ = 0;  // number of bytes that the heap has counted for this Text
};

}  // namespace incipit::jinja
