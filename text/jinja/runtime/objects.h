// The callable and iterable objects of a template: macros, functions, namespaces, dict views,
// loops.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// The result of namespace(): the only object that a template can change.
class NamespaceObject final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;

  Dict attributes;
};

class MacroObject final : public Object {
 public:
  MacroObject(const MacroStmt& code, Activation* closure) : code_(code), closure_(closure) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string Repr() const override { return "<Macro '" + code_.name + "'>"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;

 private:
  const MacroStmt& code_;
  Activation* closure_;
};

// A global function, or a method together with the value to which the method belongs.
class BuiltinObject final : public Object {
 public:
  explicit BuiltinObject(const NamedBuiltin& builtin, Value self = Value())
      : builtin_(builtin), self_(std::move(self)) {}

  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;

 private:
  const NamedBuiltin& builtin_;
  Value self_;  // value to which the method belongs; missing for a global function
};

// The result of dict.keys(), dict.values() or dict.items().
class DictView final : public Object {
 public:
  DictView(const Dict& dict, DictPart part) : dict_(dict), part_(part) {}

  std::string_view type_name() const override;
  absl::StatusOr<Iterator*> Iterate(Interpreter& in) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;

  const Dict& dict() const { return dict_; }
  DictPart part() const { return part_; }

 private:
  const Dict& dict_;
  DictPart part_;
};

// The variable `loop` in a for loop.
class LoopContext final : public Object {
 public:
  LoopContext(Value iterable, Iterator* items) : iterable_(std::move(iterable)), items_(items) {}

  // Makes the next item the current item, and returns the item. Returns nullopt at the end.
  absl::StatusOr<std::optional<Value>> Advance(Interpreter& in);

  std::string_view type_name() const override { return "LoopContext"; }
  // Returns true, as in Jinja2, where a recursive loop can be called. Recursive loops are not
  // supported here.
  bool is_callable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;
  int64_t index() const { return index0_ + 1; }

 private:
  // Returns true if an item follows the current item. If there is a following item, reads the item
  // ahead into `after_`.
  absl::StatusOr<bool> HasNext(Interpreter& in);

  Value iterable_;
  Iterator* items_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> after_, current_, before_;
};

// Returns the object in `value` as a T, or nullptr if `value` has another type.
template <typename T>
T* As(const Value& value) {
  return value.is(Kind::kObject) ? dynamic_cast<T*>(&value.object()) : nullptr;
}

}  // namespace incipit::jinja
