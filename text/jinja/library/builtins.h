// The filters, tests and globals of Jinja2, the methods of Python's types, and their arguments.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Heap;
class Interpreter;

// A filter, a test, a function or a method. positional[0] is the operand of a filter or test, or
// the object of a method.
struct NamedBuiltin {
  static constexpr size_t kParametersMax = 5;

  std::string_view name;
  // Null if Jinja2 or Python has the name `name`, and this interpreter does not support the name.
  absl::StatusOr<Value> (*function)(Interpreter& in, Arguments& arguments) = nullptr;
  size_t num_required = 0;
  // If there are no parameters, the function accepts all arguments.
  std::array<std::string_view, kParametersMax> parameters = {};
  size_t num_positional_only = 0;  // number of parameters that cannot be passed by name

  size_t num_parameters() const;
  // Binds the arguments to the parameters and calls the function. Returns INVALID_ARGUMENT for a
  // missing, repeated, unknown or superfluous argument. REQUIRES: `function` is not null.
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) const;
};

class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keyword;  // pairs of name and value; each name is a string

  // Removes the keyword argument `name` and returns its value. Returns a missing value if there is
  // no keyword argument `name`.
  Value TakeKeyword(std::string_view name);
  // Returns INVALID_ARGUMENT if there are keyword arguments.
  absl::Status RefuseKeywords(std::string_view function) const;

  // The following functions are for arguments that were bound to parameters.
  //
  // Returns the argument of the parameter with index `index`. REQUIRES: Has(index) is true.
  const Value& operator[](size_t index) const { return positional[index]; }
  // Returns true if the caller passed an argument for the parameter with index `index`.
  bool Has(size_t index) const {
    return index < positional.size() && !positional[index].is(Kind::kMissing);
  }
  // Returns true if argument `index` was not given or is none.
  bool IsNone(size_t index) const { return !Has(index) || positional[index].is_none(); }
  // Returns argument `index`, or `otherwise` if the argument was not given.
  Value Get(size_t index, const Value& otherwise = Value::None()) const {
    return Has(index) ? positional[index] : otherwise;
  }
  // Returns the truth of argument `index`, or false if the argument was not given.
  absl::StatusOr<bool> Truth(Interpreter& in, size_t index) const;
  absl::StatusOr<Int> Index(size_t index, Int otherwise) const;
  // Returns argument `index`. Returns INVALID_ARGUMENT if the argument is not a string.
  absl::StatusOr<Value> String(size_t index) const;

 private:
  friend struct NamedBuiltin;
  absl::Status Bind(const NamedBuiltin& builtin);

  const NamedBuiltin* builtin_ = nullptr;
};

// Return the filter or the test `name`. Return null if there is no filter or test of this name.
// `function` in the result is null if this interpreter does not support the filter or test.
const NamedBuiltin* FindFilter(std::string_view name);
const NamedBuiltin* FindTest(std::string_view name);
// Returns the method `name` of values of the kind `self`. Returns null if there is no such method.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Returns true if the method `name` of values of the kind `self` changes a list or a dict. The
// sandbox of Jinja2 forbids methods that change a list or a dict.
bool IsMutatingMethod(Kind self, std::string_view name);
// Returns true if a type of Python has the method `name` and no type of this interpreter has the
// method.
bool IsRefusedMethod(std::string_view name);
// Returns true if the macros of Jinja2 have the attribute `name`, which this interpreter does not
// support.
bool IsMacroAttribute(std::string_view name);
// Returns true if Jinja2 has the global function `name`, which this interpreter does not support.
bool IsRefusedFunction(std::string_view name);

using Builtins = std::span<const NamedBuiltin>;
Builtins StringFilters();
Builtins SequenceFilters();
Builtins SelectionFilters();
Builtins NumberFilters();
Builtins Tests();
Builtins StringMethods();
Builtins StringMethodFilters();
Builtins StringSearchMethods();
Builtins DictMethods();
Builtins ListMethods();

// Returns the global `name`, such as range, dict or namespace. Returns a missing value if there is
// no such global.
Value FindGlobal(Heap& heap, std::string_view name);

}  // namespace incipit::jinja
