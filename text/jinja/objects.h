// The objects with behaviour that templates meet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/jinja/iterators.h"
#include "text/jinja/value.h"

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
  MacroObject(const MacroCode& code, Activation* closure) : code_(code), closure_(closure) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string Repr() const override { return "<Macro '" + code_.name + "'>"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;

 private:
  const MacroCode& code_;
  Activation* closure_;
};

// A global function or type.
class FunctionObject final : public Object {
 public:
  FunctionObject(std::string_view name, Builtin function, std::string_view type_name = "function")
      : name_(name), function_(function), type_name_(type_name) {}

  std::string_view type_name() const override { return type_name_; }
  std::string Repr() const override;
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;

 private:
  std::string_view name_;
  Builtin function_;
  std::string_view type_name_;
};

// A method of a Python type with the value that it belongs to, which is passed as positional[0].
class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, std::string_view name, Builtin function)
      : self_(std::move(self)), name_(name), function_(function) {}

  std::string_view type_name() const override { return "builtin_function_or_method"; }
  std::string Repr() const override;
  bool is_callable() const override { return true; }
  // UNIMPLEMENTED for a method that Python has and this sandbox has not.
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;

 private:
  Value self_;
  std::string_view name_;
  Builtin function_;  // null if it cannot be called here
};

// dict.keys(), .values() and .items().
class DictView final : public Object {
 public:
  using Part = DictIterator::Part;
  DictView(const Dict& dict, Part part) : dict_(dict), part_(part) {}

  std::string_view type_name() const override;
  absl::StatusOr<Iterator*> Iterate(Interpreter& in) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;

  const Dict& dict() const { return dict_; }
  Part part() const { return part_; }

 private:
  const Dict& dict_;
  Part part_;
};

// `loop` in a for loop.
class LoopContext final : public Object {
 public:
  // The function that a recursive loop is.
  struct Recursion {
    const ForStmt* node = nullptr;
    Activation* closure = nullptr;
  };

  LoopContext(Value iterable, Iterator* items, int64_t depth0, Recursion recursion)
      : iterable_(std::move(iterable)), items_(items), depth0_(depth0), recursion_(recursion) {}

  // The next item, which becomes the current one; nullopt at the end.
  absl::StatusOr<std::optional<Value>> Advance(Interpreter& in);

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;
  absl::StatusOr<std::optional<int64_t>> Length(Interpreter& in) override;
  int64_t index() const { return index0_ + 1; }

  absl::StatusOr<Value> Cycle(Arguments& arguments);
  absl::StatusOr<Value> Changed(Interpreter& in, Arguments& arguments);

 private:
  absl::StatusOr<bool> HasNext(Interpreter& in);  // looks one item ahead

  Value iterable_;
  Iterator* items_;
  int64_t depth0_;
  Recursion recursion_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> after_, current_, before_;
  std::optional<std::vector<Value>> last_changed_;
};

class Cycler final : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}

  std::string_view type_name() const override { return "Cycler"; }
  absl::StatusOr<std::optional<Value>> Attribute(Interpreter& in, std::string_view name) override;
  const Value& current() const { return items_.list().items[pos_]; }
  void Advance() { pos_ = (pos_ + 1) % items_.list().items.size(); }
  void Reset() { pos_ = 0; }

 private:
  Value items_;  // a tuple that is not empty
  size_t pos_ = 0;
};

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}

  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

// The object as a T, or nullptr.
template <typename T>
T* As(const Value& value) {
  return value.is(Kind::kObject) ? dynamic_cast<T*>(&value.object()) : nullptr;
}

}  // namespace incipit::jinja
