#include "text/jinja/runtime/heap.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

constexpr size_t kBytesPerStep = 1024;
constexpr size_t kTextOverhead = sizeof(Text) + 48;

}  // namespace

absl::Status Heap::Charge(int64_t steps) {
  steps_ += std::min(steps, limits_.steps_max);
  if (steps_ > limits_.steps_max) {
    return InvalidArgument("the chat template needs more than {} steps (limit steps_max)",
                           limits_.steps_max);
  }
  return CheckMemory(0);
}

absl::Status Heap::ChargeBytes(size_t bytes) {
  uncharged_bytes_ += bytes;
  if (uncharged_bytes_ < kBytesPerStep) return absl::OkStatus();
  const size_t steps = uncharged_bytes_ / kBytesPerStep;
  uncharged_bytes_ %= kBytesPerStep;
  return Charge(static_cast<int64_t>(steps));
}

absl::Status Heap::CheckSize(size_t bytes) const {
  if (bytes <= limits_.output_bytes_max) return absl::OkStatus();
  return InvalidArgument(
      "the chat template makes a string of {} bytes; at most {} are allowed (limit "
      "output_bytes_max)",
      bytes, limits_.output_bytes_max);
}

absl::Status Heap::CheckMemory(size_t more_bytes) const {
  if (cell_bytes_ + string_bytes_ + more_bytes <= limits_.memory_bytes_max) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "the chat template needs more than {} bytes of memory (limit "
      "memory_bytes_max)",
      limits_.memory_bytes_max);
}

absl::Status Heap::Take(size_t bytes) {
  INCIPIT_RETURN_IF_ERROR(CheckMemory(bytes));
  cell_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Value> Heap::Finish(TextBuilder& builder, bool markup) {
  INCIPIT_RETURN_IF_ERROR(CheckSize(builder.size()));
  INCIPIT_RETURN_IF_ERROR(ChargeBytes(builder.size()));
  INCIPIT_RETURN_IF_ERROR(CheckMemory(builder.size()));
  auto text = std::make_shared<Text>();
  text->literal = builder.TakeLiteral();
  text->bytes = builder.TakeBytes();
  text->num_chars = CountCodePoints(text->bytes);
  text->live_bytes = &string_bytes_;
  text->counted_bytes =
      kTextOverhead + text->bytes.capacity() + text->literal.capacity() * sizeof(ByteRange);
  string_bytes_ += text->counted_bytes;
  return Value::String(std::move(text), markup);
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

absl::Status Heap::CheckDepth(int32_t depth) const {
  if (depth <= value_depth_max()) return absl::OkStatus();
  return InvalidArgument("a value is nested more than {} deep (twice the limit depth_max)",
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
  return New<Dict>();
}

absl::StatusOr<Value> Heap::Finish(Dict* dict) {
  INCIPIT_RETURN_IF_ERROR(CheckDepth(dict->depth));
  return Value::OfDict(dict);
}

Value Heap::MakeUndefined(std::string message) {
  return Value::Undefined(New<UndefinedReason>(std::move(message)));
}

}  // namespace incipit::jinja
