// Python's operations on values: truth, length, iteration, comparison, arithmetic, indexing,
// attributes and text. Each is INVALID_ARGUMENT where Python raises.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/runtime/value_writer.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

class Interpreter;

// The error that using an undefined value gives.
absl::Status UndefinedError(const Value& value);
// INVALID_ARGUMENT for what cannot be a dict's key.
absl::Status CheckHashable(const Value& value);

absl::StatusOr<bool> IsTrue(Interpreter& in, const Value& value);

// nullopt if the value has no length.
absl::StatusOr<std::optional<int64_t>> TryLength(Interpreter& in, const Value& value);
absl::StatusOr<int64_t> Length(Interpreter& in, const Value& value);

// nullptr if it cannot be iterated.
absl::StatusOr<Iterator*> TryIterate(Interpreter& in, const Value& value);
absl::StatusOr<Iterator*> Iterate(Interpreter& in, const Value& value);
absl::StatusOr<std::vector<Value>> ToVector(Interpreter& in, const Value& value);

absl::StatusOr<bool> Equal(Interpreter& in, const Value& left, const Value& right);
absl::StatusOr<bool> Less(Interpreter& in, const Value& left, const Value& right);
absl::StatusOr<bool> Contains(Interpreter& in, const Value& container, const Value& item);
absl::StatusOr<bool> Compare(Interpreter& in, CompareOp op, const Value& left, const Value& right);

absl::StatusOr<Value> Binary(Interpreter& in, ArithmeticOp op, const Value& left,
                             const Value& right);

// object[start:stop:step]; None where there is none.
absl::StatusOr<Value> Slice(Interpreter& in, const Value& object, const Value& start,
                            const Value& stop, const Value& step);

// object.name and object[key], as Jinja2's sandbox looks them up; undefined if there is none.
absl::StatusOr<Value> GetAttribute(Interpreter& in, const Value& object, const Value& name);
absl::StatusOr<Value> GetItem(Interpreter& in, const Value& object, const Value& key);
// The attribute alone; nullopt if there is none.
absl::StatusOr<std::optional<Value>> FindAttribute(Interpreter& in, const Value& object,
                                                   std::string_view name);

// An index or count: an integer or a boolean. `what` names it in the error.
absl::StatusOr<Int> ToIndex(const Value& value, std::string_view what);

}  // namespace incipit::jinja
