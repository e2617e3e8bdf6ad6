#include "text/jinja/arguments.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {

size_t NamedBuiltin::num_parameters() const {
  const auto end = std::find(parameters.begin(), parameters.end(), std::string_view());
  return static_cast<size_t>(end - parameters.begin());
}

absl::StatusOr<Value> NamedBuiltin::Call(Interpreter& in, Arguments& arguments) const {
  if (!parameters[0].empty()) INCIPIT_RETURN_IF_ERROR(arguments.Bind(*this));
  return function(in, arguments);
}

absl::Status Arguments::Bind(const NamedBuiltin& builtin) {
  builtin_ = &builtin;
  const size_t num_given = positional.size(), num_parameters = builtin.num_parameters();
  if (num_given > num_parameters) {
    return InvalidArgument("{}() takes at most {} arguments ({} given)", builtin.name,
                           num_parameters, num_given);
  }
  positional.resize(num_parameters);
  for (auto& [name, value] : keyword) {
    const auto begin = builtin.parameters.begin(), end = begin + num_parameters;
    const auto it = std::find(begin + builtin.num_positional_only, end, name.bytes());
    if (it == end) {
      return InvalidArgument("{}() got an unexpected keyword argument '{}'", builtin.name,
                             name.bytes());
    }
    const size_t index = static_cast<size_t>(it - begin);
    if (index < num_given) {
      return InvalidArgument("{}() got multiple values for argument '{}'", builtin.name,
                             name.bytes());
    }
    positional[index] = std::move(value);
  }
  for (size_t i = 0; i < builtin.num_required; ++i) {
    if (!Has(i)) {
      return InvalidArgument("{}() is missing the argument '{}'", builtin.name,
                             builtin.parameters[i]);
    }
  }
  return absl::OkStatus();
}

Value Arguments::TakeKeyword(std::string_view name) {
  const auto it = std::find_if(keyword.begin(), keyword.end(),
                               [&](const auto& entry) { return entry.first.bytes() == name; });
  if (it == keyword.end()) return Value();
  Value value = std::move(it->second);
  keyword.erase(it);
  return value;
}

absl::Status Arguments::RefuseKeywords(std::string_view function) const {
  if (keyword.empty()) return absl::OkStatus();
  return InvalidArgument("{}() takes no keyword argument '{}'", function,
                         keyword.front().first.bytes());
}

absl::StatusOr<bool> Arguments::Truth(Interpreter& in, size_t index) const {
  if (!Has(index)) return false;
  return IsTrue(in, positional[index]);
}

absl::StatusOr<Int> Arguments::Index(size_t index, Int otherwise) const {
  if (!Has(index)) return otherwise;
  return ToIndex(positional[index], builtin_->parameters[index]);
}

absl::StatusOr<Value> Arguments::String(size_t index) const {
  const Value& value = positional[index];
  if (value.is_string()) return value;
  return InvalidArgument("{}() argument '{}' must be a string, not '{}'", builtin_->name,
                         builtin_->parameters[index], TypeName(value));
}

}  // namespace incipit::jinja
