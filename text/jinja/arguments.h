// Arguments of built-in functions by their parameters' names, as Python binds them.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Interpreter;

struct Signature {
  std::string_view function;
  std::initializer_list<std::string_view> parameters;
  size_t num_required = 0;
  size_t num_positional_only = 0;  // of the first parameters
};

class BoundArguments {
 public:
  // INVALID_ARGUMENT for a missing, repeated, unknown or superfluous argument.
  static absl::StatusOr<BoundArguments> Bind(const Signature& signature, Arguments& arguments);

  // nullptr if it was not given.
  const Value* Find(size_t index) const {
    return values_[index].is(Kind::kMissing) ? nullptr : &values_[index];
  }
  // REQUIRES: a required parameter.
  const Value& operator[](size_t index) const { return values_[index]; }

  // The argument, or `otherwise` if it was not given.
  absl::StatusOr<bool> Truth(Interpreter& in, size_t index, bool otherwise) const;
  absl::StatusOr<Int> Index(size_t index, Int otherwise) const;
  // Of a kind other than string: INVALID_ARGUMENT.
  absl::StatusOr<Value> String(size_t index) const;
  // True if it was not given or is none.
  bool IsNone(size_t index) const { return Find(index) == nullptr || Find(index)->is_none(); }

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<Value> values_;
};

}  // namespace incipit::jinja
