// Iteration over the values that hold others, and over those that are made on the way.
#pragma once

#include <functional>
#include <vector>

#include "text/jinja/value.h"

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

// Items that are made all at once, when the first of them is asked for.
class DeferredItems final : public Iterator {
 public:
  using Make = std::function<absl::StatusOr<std::vector<Value>>(Interpreter& in)>;
  explicit DeferredItems(Make make) : make_(std::move(make)) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;

 private:
  Make make_;
  std::optional<std::vector<Value>> items_;
  size_t pos_ = 0;
};

}  // namespace incipit::jinja
