// Python's arithmetic on numbers: checked integers, floors, exact comparison, shortest decimals.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// The error of what has no room in an Int.
absl::Status IntegerTooLarge();

// INVALID_ARGUMENT where the result has no room in an Int.
absl::StatusOr<Int> AddInts(Int left, Int right);
absl::StatusOr<Int> MultiplyInts(Int left, Int right);
absl::StatusOr<Int> NegateInt(Int value);
std::string_view Spelling(ArithmeticOp op);

// REQUIRES: both are numbers.
absl::StatusOr<Value> Arithmetic(ArithmeticOp op, const Value& left, const Value& right);

// The value of a digit of any base up to 36; 99 for another character.
int DigitValue(char c);

// repr(): the shortest decimal that reads back as the same double.
std::string FormatReal(double value);
// Toward zero. INVALID_ARGUMENT for NaN, infinities and what an Int cannot hold.
absl::StatusOr<Int> TruncateReal(double value);

// int(text, base) and float(text); nullopt if the text is no number.
absl::StatusOr<std::optional<Int>> ParseInt(std::string_view text, int base);
std::optional<double> ParseReal(std::string_view text);

// round(value, num_digits), half to even.
absl::StatusOr<Int> RoundInt(Int value, int64_t num_digits);
double RoundReal(double value, int64_t num_digits);

}  // namespace incipit::jinja
