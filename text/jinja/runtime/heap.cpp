#include "text/jinja/runtime/heap.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace incipit::jinja {
namespace {

// Creating or searching this number of bytes of text counts as one step of work.
constexpr size_t kBytesPerStep = 1024;

}  // namespace

Heap::~Heap() {
  for (Cell* const cell : cells_) cell->~Cell();
}

void* Heap::Allocate(size_t bytes) {
  constexpr size_t kAlign = alignof(std::max_align_t);
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (block_size_ - block_used_ < bytes) {
    // The first block of memory is smaller than the later blocks, because most renderings need
    // little memory.
    block_size_ = blocks_.empty() ? kBlockBytes / 8 : kBlockBytes;
    INCIPIT_CHECK(bytes <= block_size_);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block_size_));
    block_used_ = 0;
  }
  block_used_ += bytes;
  return blocks_.back().get() + block_used_ - bytes;
}

absl::Status Heap::TooManySteps() const {
  return InvalidArgument("the chat template needs more than {} steps (limit steps_max)",
                         limits_.steps_max);
}

absl::Status Heap::TooLongString(size_t bytes) const {
  return InvalidArgument(
      "the chat template makes a string of {} bytes; at most {} are allowed (limit "
      "output_bytes_max)",
      bytes, limits_.output_bytes_max);
}

absl::Status Heap::TooMuchMemory() const {
  return InvalidArgument(
      "the chat template needs more than {} bytes of memory (limit "
      "memory_bytes_max)",
      limits_.memory_bytes_max);
}

absl::Status Heap::ChargeBytes(size_t bytes) {
  uncharged_bytes_ += bytes;
  if (uncharged_bytes_ < kBytesPerStep) return absl::OkStatus();
  const size_t steps = uncharged_bytes_ / kBytesPerStep;
  uncharged_bytes_ %= kBytesPerStep;
  return Charge(static_cast<int64_t>(steps));
}

absl::Status Heap::Take(size_t bytes) {
  INCIPIT_RETURN_IF_ERROR(CheckMemory(bytes));
  cell_bytes_ += bytes;
  return absl::OkStatus();
}

template <typename... Args>
Value Heap::NewText(bool markup, Args&&... args) {
  void* memory = nullptr;
  if (free_texts_.empty()) {
    memory = Allocate(sizeof(Text));
  } else {
    memory = free_texts_.back();
    free_texts_.pop_back();
  }
  Text* const text = new (memory) Text(std::forward<Args>(args)...);
  text->heap_ = this;
  Count(*text);
  return Value::Shared(text, markup);
}

void Heap::Count(Text& text) {
  const size_t bytes = sizeof(Text) + text.content_.memory_bytes();
  string_bytes_ += bytes - text.counted_bytes_;
  text.counted_bytes_ = bytes;
}

void Heap::Free(Text& text) {
  string_bytes_ -= text.counted_bytes_;
  Text* const owner = text.owner_;
  text.~Text();
  free_texts_.push_back(&text);
  if (owner != nullptr && --owner->num_uses_ == 0) Free(*owner);
}

absl::StatusOr<Value> Heap::Finish(TextBuilder& builder, bool markup) {
  INCIPIT_RETURN_IF_ERROR(CheckSize(builder.size()));
  INCIPIT_RETURN_IF_ERROR(ChargeBytes(builder.size()));
  INCIPIT_RETURN_IF_ERROR(CheckMemory(builder.capacity()));
  return NewText(markup, std::exchange(builder, {}));
}

absl::StatusOr<Value> Heap::MakeString(std::string_view bytes, Origin origin) {
  INCIPIT_RETURN_IF_ERROR(CheckSize(bytes.size()));
  TextBuilder builder;
  builder.Append(bytes, origin);
  return Finish(builder);
}

absl::StatusOr<Value> Heap::Substring(const Value& string, size_t begin, size_t end) {
  if (begin == 0 && end == string.bytes().size()) return string;
  TextBuilder builder;
  builder.Append(string.text(), begin, end);
  return Finish(builder, string.is_markup());
}

absl::StatusOr<Value> Heap::Concatenate(const Value& left, const Value& right) {
  const Text &a = left.text(), &b = right.text();
  const size_t size = a.bytes.size() + b.bytes.size();
  INCIPIT_RETURN_IF_ERROR(CheckSize(size));
  Text* const owner = a.owner_ == nullptr ? const_cast<Text*>(&a) : a.owner_;
  TextBuilder& content = owner->content_;
  if (a.heap_ == nullptr || content.size() != a.bytes.size() || content.capacity() < size) {
    TextBuilder builder;
    // If `left` is longer than `right`, reserve twice the necessary memory, because templates often
    // extend a long string repeatedly.
    const bool with_room = a.bytes.size() > b.bytes.size();
    INCIPIT_RETURN_IF_ERROR(CheckMemory(size + with_room * size));
    builder.Reserve(size + with_room * size);
    builder.Append(a);
    builder.Append(b);
    return Finish(builder);
  }
  INCIPIT_RETURN_IF_ERROR(ChargeBytes(b.bytes.size()));
  INCIPIT_RETURN_IF_ERROR(CheckMemory(0));
  const size_t num_chars = a.num_chars + b.num_chars;
  content.Append(b);
  Count(*owner);
  ++owner->num_uses_;
  return NewText(false, *owner, num_chars);
}

absl::Status Heap::CheckDepth(int32_t depth) const {
  if (depth <= value_depth_max()) return absl::OkStatus();
  return InvalidArgument("a value is nested more than {} deep (the maximum is 2 * depth_max)",
                         value_depth_max());
}

absl::StatusOr<Value> Heap::MakeSequence(Kind kind, std::vector<Value> items, Origin origin,
                                         bool is_group) {
  INCIPIT_RETURN_IF_ERROR(Charge(static_cast<int64_t>(items.size())));
  INCIPIT_RETURN_IF_ERROR(Take(items.capacity() * sizeof(Value)));
  List* list = New<List>();
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + DepthOf(item));
  INCIPIT_RETURN_IF_ERROR(CheckDepth(list->depth));
  list->items = std::move(items);
  list->origin = origin;
  list->is_group = is_group;
  return kind == Kind::kList ? Value::OfList(list) : Value::OfTuple(list);
}

absl::StatusOr<Dict*> Heap::NewDict(size_t num_entries) {
  INCIPIT_RETURN_IF_ERROR(Charge(static_cast<int64_t>(num_entries)));
  INCIPIT_RETURN_IF_ERROR(Take(num_entries * kEntryBytes));
  Dict* dict = New<Dict>();
  dict->Reserve(num_entries);
  return dict;
}

absl::StatusOr<Value> Heap::Finish(Dict* dict) {
  INCIPIT_RETURN_IF_ERROR(CheckDepth(dict->depth));
  return Value::OfDict(dict);
}

}  // namespace incipit::jinja
