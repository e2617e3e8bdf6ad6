// Python's operations on strings, for methods and filters. The marks of origin (text.h) stay with
// the characters. If a string is marked safe, every result of an operation on the string is marked
// safe.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

enum class CaseOp : uint8_t { kLower, kUpper, kTitle, kCapitalize };
absl::StatusOr<Value> ChangeCase(Interpreter& in, const Value& string, CaseOp op);
// Appends the bytes [begin, end) of `source`, converted by `op`. The text around the range has no
// influence on the result.
absl::Status AppendCase(Interpreter& in, const Text& source, size_t begin, size_t end, CaseOp op,
                        TextBuilder& out);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Removes the characters in `chars` from the sides of `string`. Removes white space if `chars` is
// null.
absl::StatusOr<Value> Strip(Interpreter& in, const Value& string, const Value* chars, Side side);

// Replaces the first `count` occurrences of `old_text` by `new_text`. Replaces all occurrences if
// `count` is less than 0.
absl::StatusOr<Value> ReplaceAll(Interpreter& in, const Value& string, const Value& old_text,
                                 const Value& new_text, Int count);

absl::StatusOr<std::vector<Value>> SplitLines(Interpreter& in, const Value& string, bool keep_ends);
// Splits `string` at `separator`, or at runs of white space if `separator` is null. If `splits_max`
// is 0 or more, `splits_max` limits the number of splits.
absl::StatusOr<std::vector<Value>> Split(Interpreter& in, const Value& string,
                                         const Value* separator, Int splits_max, bool from_right);

// Return the byte offset of the first or the last occurrence of `needle` in `haystack`. Return
// nullopt if there is no occurrence. The time is linear in the sizes of both texts.
std::optional<size_t> FindBytes(std::string_view haystack, std::string_view needle);
std::optional<size_t> FindLastBytes(std::string_view haystack, std::string_view needle);

// Returns str.isupper() of Python or, if `upper` is false, str.islower(). The result is true if at
// least one character has the requested case, and no character has another case.
bool HasOnlyCase(std::string_view bytes, bool upper);

// Adds copies of the character `fill` at the side `side` of `string`, up to a length of `width`
// characters. For Side::kBoth, the result is equal to str.center() of Python.
absl::StatusOr<Value> Pad(Interpreter& in, const Value& string, Int width, const Value& fill,
                          Side side);

}  // namespace incipit::jinja
