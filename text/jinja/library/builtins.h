// Tables of the filters, tests and global functions of Jinja2, and of the methods of Python's
// types. Also contains the class Arguments: the arguments of one call.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

using Result = absl::StatusOr<Value>;

// A filter, a test, a global function or a method. The first argument of a filter or test is its
// operand; the first argument of a method is its object.
struct NamedBuiltin {
  static constexpr size_t kParametersMax = 5;

  std::string_view name;
  // The implementation. Null if Jinja2 or Python has the filter, test, function or method, but this
  // template interpreter does not support it.
  Result (*function)(Interpreter& in, Arguments& arguments) = nullptr;
  size_t num_required = 0;
  // Names of the parameters. If the array has no names, the function accepts any arguments.
  std::array<std::string_view, kParametersMax> parameters = {};
  size_t num_positional_only = 0;  // number of parameters that cannot be passed by name

  // Assigns the arguments to the parameters by position and by name, and calls the function.
  // Returns INVALID_ARGUMENT for a missing, repeated, unknown or superfluous argument. Returns
  // UNIMPLEMENTED if `function` is null.
  Result Call(Interpreter& in, Arguments& arguments) const;
};

class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keyword;  // keyword arguments as pairs (name, value)

  // Removes the keyword argument `name` from the arguments, and returns its value. Returns a value
  // of Kind::kMissing if there is no such argument.
  Value TakeKeyword(std::string_view name);
  // Returns INVALID_ARGUMENT if the call has keyword arguments. `function` is the name of the
  // called function, for the error message.
  absl::Status RefuseKeywords(std::string_view function) const;

  // Returns the argument for the parameter number `index`. REQUIRES: NamedBuiltin::Call() has
  // assigned the arguments to the parameters, and Has(index) is true.
  const Value& operator[](size_t index) const { return positional[index]; }
  bool Has(size_t index) const {
    return index < positional.size() && !positional[index].is(Kind::kMissing);
  }
  bool IsNone(size_t index) const { return !Has(index) || positional[index].is_none(); }
  Value Get(size_t index, const Value& otherwise = Value::None()) const {
    return Has(index) ? positional[index] : otherwise;
  }
  // Returns the truth value of the argument for the parameter number `index`, like Python's bool().
  // Returns false if the argument was not passed.
  absl::StatusOr<bool> Truth(Interpreter& in, size_t index) const;
  absl::StatusOr<Int> Index(size_t index, Int otherwise) const;
  // Returns the argument for the parameter number `index`. Returns INVALID_ARGUMENT if the argument
  // is not a string.
  Result String(size_t index) const;

 private:
  friend struct NamedBuiltin;
  absl::Status Bind(const NamedBuiltin& builtin);

  const NamedBuiltin* builtin_ = nullptr;
};

// Returns the filter `name`, such as "upper". Returns null if Jinja2 has no such filter.
// NamedBuiltin::function is null if Jinja2 has the filter but this template interpreter does not
// support it.
const NamedBuiltin* FindFilter(std::string_view name);
// Returns the test `name`, such as "defined". Returns null if Jinja2 has no such test.
const NamedBuiltin* FindTest(std::string_view name);
// Returns the global function `name`, such as "range". Returns null if Jinja2 has no such function.
// NamedBuiltin::function is null if this template interpreter does not support the function.
const NamedBuiltin* FindFunction(std::string_view name);
// Returns the method `name` of values of the kind `self`, such as strings. Returns null if the
// values have no such method.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Returns true if `self` is the kind of a list or dict, and the method `name` changes the list or
// dict. The sandbox of Jinja2 forbids such methods.
bool IsMutatingMethod(Kind self, std::string_view name);
// Returns true if a type of Python has the method `name`, but this template interpreter supports
// the method for no type.
bool IsRefusedMethod(std::string_view name);
// Returns true if macros of Jinja2 have the attribute `name`. This template interpreter does not
// support attributes of macros.
bool IsMacroAttribute(std::string_view name);

using Builtins = std::span<const NamedBuiltin>;
Builtins StringFilters();
Builtins SequenceFilters();
Builtins SelectionFilters();
Builtins NumberFilters();
Builtins Tests();
Builtins StringMethods();
Builtins StringMethodFilters();
Builtins DictMethods();
Builtins ListMethods();
Builtins Functions();

}  // namespace incipit::jinja
