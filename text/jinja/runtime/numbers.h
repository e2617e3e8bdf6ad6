// Arithmetic on numbers with the rules of Python: integer division rounds down, and comparisons are
// exact. An integer has 64 bits, and an overflow is an error.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

absl::Status IntegerTooLarge();

// Returns left + right. Returns INVALID_ARGUMENT if the result does not fit into an Int.
absl::StatusOr<Int> AddInts(Int left, Int right);
absl::StatusOr<Int> MultiplyInts(Int left, Int right);
// Returns the operator as it is written in a template, such as "//" for integer division.
std::string_view Spelling(ArithmeticOp op);

// Computes `left` op `right`. REQUIRES: `left` and `right` are numbers.
absl::StatusOr<Value> Arithmetic(ArithmeticOp op, const Value& left, const Value& right);

// Returns the value of the digit `c`: 0 to 9 for a decimal digit, 10 to 35 for a letter. Returns 99
// for any other character.
int DigitValue(char c);

// Converts `value` to the shortest decimal text that converts back to `value`, like Python's
// repr().
std::string FormatReal(double value);
// Returns `value` rounded toward zero. Returns INVALID_ARGUMENT for NaN, for infinities and for a
// result that does not fit into an Int.
absl::StatusOr<Int> TruncateReal(double value);

// Converts `text` to an integer, like Python's int(text, base). Returns nullopt if `text` is not an
// integer.
absl::StatusOr<std::optional<Int>> ParseInt(std::string_view text, int base);
// Converts `text` to a double, like Python's float(text). Returns nullopt if `text` is not a
// number.
std::optional<double> ParseReal(std::string_view text);

// Rounds an integer, like Python's round(value, num_digits). Between two equally near results,
// chooses the even result.
absl::StatusOr<Int> RoundInt(Int value, int64_t num_digits);
// Rounds a float, like Python's round(value, num_digits).
double RoundReal(double value, int64_t num_digits);

}  // namespace incipit::jinja
