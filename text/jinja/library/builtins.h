// Tables of the filters, tests and global functions of Jinja2, and of the methods of Python's
// types. The class Arguments holds the arguments of one call.
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

// A filter, a test, a global function or a method. The operand of a filter or test, or the object
// of a method, is element 0 of Arguments::positional.
struct NamedBuiltin {
  static constexpr size_t kParametersMax = 5;

  std::string_view name;
  // The implementation. Null if Jinja2 or Python has the name `name`, but this interpreter does not
  // support the name.
  Result (*function)(Interpreter& in, Arguments& arguments) = nullptr;
  size_t num_required = 0;
  // Names of the parameters. If there are no names, the function accepts any arguments.
  std::array<std::string_view, kParametersMax> parameters = {};
  size_t num_positional_only = 0;  // number of parameters that cannot be passed by name

  // Assigns the arguments to the parameters, and calls the function. Returns INVALID_ARGUMENT for a
  // missing, repeated, unknown or superfluous argument. Returns UNIMPLEMENTED if `function` is
  // null.
  Result Call(Interpreter& in, Arguments& arguments) const;
};

class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keyword;  // pairs (name, value); each name is a string

  // Removes the keyword argument `name` and returns the value of the argument. Returns a value of
  // Kind::kMissing if there is no keyword argument `name`.
  Value TakeKeyword(std::string_view name);
  // Returns INVALID_ARGUMENT if the call has keyword arguments. `function` is the name of the
  // called function in the error message.
  absl::Status RefuseKeywords(std::string_view function) const;

  // Returns the argument of the parameter with index `index`. REQUIRES: NamedBuiltin::Call() has
  // assigned the arguments to the parameters, and Has(index) is true.
  const Value& operator[](size_t index) const { return positional[index]; }
  // Returns true if the caller passed an argument for the parameter with index `index`.
  bool Has(size_t index) const {
    return index < positional.size() && !positional[index].is(Kind::kMissing);
  }
  // Returns true if the argument of the parameter with index `index` was not passed or is none.
  bool IsNone(size_t index) const { return !Has(index) || positional[index].is_none(); }
  // Returns the argument of the parameter with index `index`, or `otherwise` if the argument was
  // not passed.
  Value Get(size_t index, const Value& otherwise = Value::None()) const {
    return Has(index) ? positional[index] : otherwise;
  }
  // Returns the truth value of the argument with index `index`, as Python's bool() does. Returns
  // false if the argument was not passed.
  absl::StatusOr<bool> Truth(Interpreter& in, size_t index) const;
  absl::StatusOr<Int> Index(size_t index, Int otherwise) const;
  // Returns the argument with index `index`. Returns INVALID_ARGUMENT if the argument is not a
  // string.
  Result String(size_t index) const;

 private:
  friend struct NamedBuiltin;
  absl::Status Bind(const NamedBuiltin& builtin);

  const NamedBuiltin* builtin_ = nullptr;
};

// Returns the filter `name`. Returns null if Jinja2 has no filter `name`. NamedBuiltin::function is
// null if Jinja2 has the filter but this interpreter does not support the filter.
const NamedBuiltin* FindFilter(std::string_view name);
// Returns the test `name`, such as "defined". Returns null if Jinja2 has no test `name`.
const NamedBuiltin* FindTest(std::string_view name);
// Returns the global function `name`, such as "range". Returns null if Jinja2 has no global
// function `name`. NamedBuiltin::function is null if this interpreter does not support the
// function.
const NamedBuiltin* FindFunction(std::string_view name);
// Returns the method `name` of values of the kind `self`, such as strings. Returns null if values
// of this kind have no method `name`.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Returns true if the method `name` of a list or dict changes the list or dict. `self` is the kind
// of the object. The sandbox of Jinja2 forbids these methods.
bool IsMutatingMethod(Kind self, std::string_view name);
// Returns true if a type of Python has the method `name`, but no type of this interpreter has the
// method.
bool IsRefusedMethod(std::string_view name);
// Returns true if macros of Jinja2 have the attribute `name`, which this interpreter does not
// support.
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
