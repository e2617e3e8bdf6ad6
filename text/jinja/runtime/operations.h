// Python's operations on values: truth, length, iteration, comparison, arithmetic, indexing,
// attributes and text. If Python would raise an exception, an operation returns INVALID_ARGUMENT.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/runtime/value_writer.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

class Interpreter;

// Returns the error for the use of the undefined value `value` in an operation.
absl::Status UndefinedError(const Value& value);
// Returns INVALID_ARGUMENT if `value` cannot be the key of a dict.
absl::Status CheckHashable(const Value& value);

absl::StatusOr<bool> IsTrue(Interpreter& in, const Value& value);

// Returns the length of `value`, like Python's len(). Returns nullopt if `value` has no length.
absl::StatusOr<std::optional<int64_t>> TryLength(Interpreter& in, const Value& value);
absl::StatusOr<int64_t> Length(Interpreter& in, const Value& value);

// Returns an iterator over the items of `value`. Returns nullptr if `value` cannot be iterated.
absl::StatusOr<Iterator*> TryIterate(Interpreter& in, const Value& value);
absl::StatusOr<Iterator*> Iterate(Interpreter& in, const Value& value);
absl::StatusOr<std::vector<Value>> ToVector(Interpreter& in, const Value& value);

absl::StatusOr<bool> Equal(Interpreter& in, const Value& left, const Value& right);
absl::StatusOr<bool> Less(Interpreter& in, const Value& left, const Value& right);
absl::StatusOr<bool> Contains(Interpreter& in, const Value& container, const Value& item);
absl::StatusOr<bool> Compare(Interpreter& in, CompareOp op, const Value& left, const Value& right);

absl::StatusOr<Value> Binary(Interpreter& in, ArithmeticOp op, const Value& left,
                             const Value& right);

// Returns object[start:stop:step], as in Python. `start`, `stop` and `step` are None where the
// template omits them.
absl::StatusOr<Value> Slice(Interpreter& in, const Value& object, const Value& start,
                            const Value& stop, const Value& step);

// Returns object.name with the rules of Jinja2's sandbox: the attribute `name` or, if there is
// none, the item object[name]. Returns an undefined value if neither exists.
absl::StatusOr<Value> GetAttribute(Interpreter& in, const Value& object, const Value& name);
// Returns object[key] with the rules of Jinja2's sandbox: the item or, if there is none, the
// attribute with the name `key`. Returns an undefined value if neither exists.
absl::StatusOr<Value> GetItem(Interpreter& in, const Value& object, const Value& key);
// Returns the attribute `name` of `object`, but does not search for an item object[name]. Returns
// nullopt if `object` has no such attribute.
absl::StatusOr<std::optional<Value>> FindAttribute(Interpreter& in, const Value& object,
                                                   std::string_view name);

// Converts `value`, an integer or a boolean, to an index or a count. Returns INVALID_ARGUMENT for
// other types. `what` describes `value` in the error message.
absl::StatusOr<Int> ToIndex(const Value& value, std::string_view what);

}  // namespace incipit::jinja
