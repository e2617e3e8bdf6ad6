// The filters, tests and globals of Jinja2 and the methods of Python's types, and the arguments
// that they take by their parameters' names.
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

// A filter, a test, a function or a method. A filter's value and a method's object are
// positional[0].
struct NamedBuiltin {
  static constexpr size_t kParametersMax = 5;

  std::string_view name;
  // Null for what Jinja2 or Python has and this sandbox refuses.
  absl::StatusOr<Value> (*function)(Interpreter& in, Arguments& arguments) = nullptr;
  size_t num_required = 0;
  // None: the function takes whatever it is given.
  std::array<std::string_view, kParametersMax> parameters = {};
  size_t num_positional_only = 0;  // of the first parameters

  size_t num_parameters() const;
  // Binds the arguments and calls the function. INVALID_ARGUMENT for a missing, repeated, unknown
  // or superfluous argument. REQUIRES: the function is not null.
  absl::StatusOr<Value> Call(Interpreter& in, Arguments& arguments) const;
};

class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keyword;  // the names are strings

  // The value of a keyword argument, which is removed; missing if there is none.
  Value TakeKeyword(std::string_view name);
  // INVALID_ARGUMENT if there are keyword arguments.
  absl::Status RefuseKeywords(std::string_view function) const;

  // The following are for bound arguments, by the parameter's index.
  // REQUIRES: a required parameter, or one that was given.
  const Value& operator[](size_t index) const { return positional[index]; }
  bool Has(size_t index) const {
    return index < positional.size() && !positional[index].is(Kind::kMissing);
  }
  // True if it was not given or is none.
  bool IsNone(size_t index) const { return !Has(index) || positional[index].is_none(); }
  // The argument, or `otherwise` if it was not given.
  Value Get(size_t index, const Value& otherwise = Value::None()) const {
    return Has(index) ? positional[index] : otherwise;
  }
  absl::StatusOr<bool> Truth(Interpreter& in, size_t index) const;  // false if it was not given
  absl::StatusOr<Int> Index(size_t index, Int otherwise) const;
  // Of a kind other than string: INVALID_ARGUMENT.
  absl::StatusOr<Value> String(size_t index) const;

 private:
  friend struct NamedBuiltin;
  absl::Status Bind(const NamedBuiltin& builtin);

  const NamedBuiltin* builtin_ = nullptr;
};

// nullptr if there is none of this name. The function is null if this sandbox refuses it.
const NamedBuiltin* FindFilter(std::string_view name);
const NamedBuiltin* FindTest(std::string_view name);
// A method of the values of a kind.
const NamedBuiltin* FindMethod(Kind self, std::string_view name);

// Whether it would change a list or a dict, which the sandbox forbids.
bool IsMutatingMethod(Kind self, std::string_view name);
// Whether some type of Python has a method of this name, and no type has it here.
bool IsRefusedMethod(std::string_view name);
// Whether Jinja2's macros have an attribute of this name, which is not here.
bool IsMacroAttribute(std::string_view name);
// Whether Jinja2 has a global function of this name that this sandbox refuses.
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

// range, dict, namespace, ...; missing if there is none of this name.
Value FindGlobal(Heap& heap, std::string_view name);

}  // namespace incipit::jinja
