// Iteration over the values that hold others, and over those that are made on the way.
#pragma once

#include <functional>
#include <vector>

#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Which part of a dict's entries: a (key, value) tuple for kItems.
enum class DictPart : uint8_t { kKeys, kValues, kItems };

// The items of a list, a tuple, a range or a dict, or the characters of a string; none of an
// undefined value.
class ValueIterator final : public Iterator {
 public:
  explicit ValueIterator(Value source, DictPart part = DictPart::kKeys)
      : source_(std::move(source)), part_(part) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;

 private:
  absl::StatusOr<std::optional<Value>> NextEntry(Interpreter& in);
  absl::StatusOr<std::optional<Value>> NextCharacter(Interpreter& in);

  Value source_;
  DictPart part_;
  size_t pos_ = 0;  // of the next item; in bytes, of a string
};

// A generator: what `start` returns produces the items, one at a time. `start` is called when the
// first item is asked for; if it returns null, there are none.
class LazyItems final : public Iterator {
 public:
  using Item = absl::StatusOr<std::optional<Value>>;
  using Produce = std::function<Item(Interpreter& in)>;
  using Start = std::function<absl::StatusOr<Produce>(Interpreter& in)>;

  explicit LazyItems(Start start) : start_(std::move(start)) {}
  Item Next(Interpreter& in) override;

 private:
  Item TryNext(Interpreter& in);

  Start start_;
  Produce produce_;
  bool done_ = false;
};

}  // namespace incipit::jinja
