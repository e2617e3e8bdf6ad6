// Arithmetic with numbers as in Python: division that rounds down, exact comparison, and the
// shortest decimals. Integers have 64 bits, and an overflow is an error.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// Returns the error for a number that does not fit into an Int.
absl::Status IntegerTooLarge();

// Return the sum, the product or the negated value. Return INVALID_ARGUMENT if the result does not
// fit into an Int.
absl::StatusOr<Int> AddInts(Int left, Int right);
absl::StatusOr<Int> MultiplyInts(Int left, Int right);
absl::StatusOr<Int> NegateInt(Int value);
// Returns the operator as written in a template, such as "//".
std::string_view Spelling(ArithmeticOp op);

// Returns the result of the operator `op`. REQUIRES: `left` and `right` are numbers.
absl::StatusOr<Value> Arithmetic(ArithmeticOp op, const Value& left, const Value& right);

// Returns the value of the digit `c` in any base up to 36. Returns 99 if `c` is not a digit.
int DigitValue(char c);

// Returns repr(value) of Python: the shortest decimal that converts back to the same double.
std::string FormatReal(double value);
// Rounds `value` toward zero. Returns INVALID_ARGUMENT for NaN, for infinities and for a result
// that does not fit into an Int.
absl::StatusOr<Int> TruncateReal(double value);

// Return int(text, base) and float(text) of Python. Return nullopt if `text` is not a number.
absl::StatusOr<std::optional<Int>> ParseInt(std::string_view text, int base);
std::optional<double> ParseReal(std::string_view text);

// Return round(value, num_digits) of Python, which rounds halves to even.
absl::StatusOr<Int> RoundInt(Int value, int64_t num_digits);
double RoundReal(double value, int64_t num_digits);

}  // namespace incipit::jinja
