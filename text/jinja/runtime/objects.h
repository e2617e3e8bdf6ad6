// Classes of objects that a template can use: macros, functions, namespaces, dict views and loops.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// The result of the template function namespace(): the only kind of object that a template can
// change.
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

// A global function, or a method bound to its object.
class BuiltinObject final : public Object {
 public:
  explicit BuiltinObject(const NamedBuiltin& builtin, Value self = Value())
      : builtin_(builtin), self_(std::move(self)) {}

  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;

 private:
  const NamedBuiltin& builtin_;
  Value self_;  // object of the method; missing for a global function
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

// The variable `loop` of a for loop in a template.
class LoopContext final : public Object {
 public:
  LoopContext(Value iterable, Iterator* items) : iterable_(std::move(iterable)), items_(items) {}

  // Moves the loop to its next item, and returns the item. Returns nullopt if no item is left.
  absl::StatusOr<std::optional<Value>> Advance(Interpreter& in);

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;
  int64_t index() const { return index0_ + 1; }

 private:
  Value iterable_;
  Iterator* items_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> after_, current_, before_;
};

// Returns the object in `value`, if the object has the type T. Returns nullptr otherwise.
template <typename T>
T* As(const Value& value) {
  return value.is(Kind::kObject) ? dynamic_cast<T*>(&value.object()) : nullptr;
}

}  // namespace incipit::jinja
