// The objects with behaviour that templates meet.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// namespace(): the one thing that a template can change.
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

// A global function, or a method with the value that it belongs to.
class BuiltinObject final : public Object {
 public:
  explicit BuiltinObject(const NamedBuiltin& builtin, Value self = Value())
      : builtin_(builtin), self_(std::move(self)) {}

  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;

 private:
  const NamedBuiltin& builtin_;
  Value self_;  // missing of a function
};

// dict.keys(), .values() and .items().
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

// `loop` in a for loop.
class LoopContext final : public Object {
 public:
  LoopContext(Value iterable, Iterator* items) : iterable_(std::move(iterable)), items_(items) {}

  // The next item, which becomes the current one; nullopt at the end.
  absl::StatusOr<std::optional<Value>> Advance(Interpreter& in);

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }  // with recursion, which is not here
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;
  int64_t index() const { return index0_ + 1; }

 private:
  absl::StatusOr<bool> HasNext(Interpreter& in);  // looks one item ahead

  Value iterable_;
  Iterator* items_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> after_, current_, before_;
};

// The object as a T, or nullptr.
template <typename T>
T* As(const Value& value) {
  return value.is(Kind::kObject) ? dynamic_cast<T*>(&value.object()) : nullptr;
}

}  // namespace incipit::jinja
