// Iterators over the items of containers and strings, and generators, which compute items on
// request.
#pragma once

#include <functional>

#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// The part of each dict entry that an iterator returns. kItems means the tuple (key, value).
enum class DictPart : uint8_t { kKeys, kValues, kItems };

// Iterates over the items of a list, tuple, range or dict, or over the characters of a string. An
// undefined value has no items.
class ValueIterator final : public Iterator {
 public:
  explicit ValueIterator(Value source, DictPart part = DictPart::kKeys)
      : source_(std::move(source)), part_(part) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;

 private:
  Value source_;
  DictPart part_;
  size_t pos_ = 0;  // index of the next item; in a string, byte offset of the next character
};

// A generator, which computes items on request. `start` is called when the first item is requested.
// `start` returns a function that computes one item per call, or an empty function if there are no
// items.
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
