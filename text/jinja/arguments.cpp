#include "text/jinja/arguments.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {

absl::StatusOr<BoundArguments> BoundArguments::Bind(const Signature& signature,
                                                    Arguments& arguments) {
  BoundArguments bound;
  bound.function_ = signature.function;
  bound.names_ = signature.parameters;
  bound.values_.resize(bound.names_.size());
  if (arguments.positional.size() > bound.names_.size()) {
    return InvalidArgument("{}() takes at most {} arguments ({} given)", signature.function,
                           bound.names_.size(), arguments.positional.size());
  }
  std::move(arguments.positional.begin(), arguments.positional.end(), bound.values_.begin());
  const size_t num_positional = arguments.positional.size();
  for (auto& [name, value] : arguments.keyword) {
    const auto it = std::find(bound.names_.begin() + signature.num_positional_only,
                              bound.names_.end(), name.bytes());
    if (it == bound.names_.end()) {
      return InvalidArgument("{}() got an unexpected keyword argument '{}'", signature.function,
                             name.bytes());
    }
    const size_t index = static_cast<size_t>(it - bound.names_.begin());
    if (index < num_positional) {
      return InvalidArgument("{}() got multiple values for argument '{}'", signature.function,
                             name.bytes());
    }
    bound.values_[index] = std::move(value);
  }
  for (size_t i = 0; i < signature.num_required; ++i) {
    if (bound.values_[i].is(Kind::kMissing)) {
      return InvalidArgument("{}() is missing the argument '{}'", signature.function,
                             bound.names_[i]);
    }
  }
  return bound;
}

absl::StatusOr<bool> BoundArguments::Truth(Interpreter& in, size_t index, bool otherwise) const {
  if (Find(index) == nullptr) return otherwise;
  return IsTrue(in, values_[index]);
}

absl::StatusOr<Int> BoundArguments::Index(size_t index, Int otherwise) const {
  if (Find(index) == nullptr) return otherwise;
  return ToIndex(values_[index], names_[index]);
}

absl::StatusOr<Value> BoundArguments::String(size_t index) const {
  const Value& value = values_[index];
  if (value.is_string()) return value;
  return InvalidArgument("{}() argument '{}' must be a string, not '{}'", function_, names_[index],
                         TypeName(value));
}

}  // namespace incipit::jinja
