// Python's operations on strings, for methods and filters. The marks of origin stay with the
// characters. If a string is marked safe, every result of an operation on the string is marked
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
// Appends the bytes [begin, end) of `source` in another case. The text around the range has no
// influence.
absl::Status AppendCase(Interpreter& in, const Text& source, size_t begin, size_t end, CaseOp op,
                        TextBuilder& out);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Removes the characters in `chars` from the sides of `string`. Removes white space if `chars` is
// null.
absl::StatusOr<Value> Strip(Interpreter& in, const Value& string, const Value* chars, Side side);

// Replaces the first `count` occurrences of `old_text`. Replaces all if `count` is less than 0.
absl::StatusOr<Value> ReplaceAll(Interpreter& in, const Value& string, const Value& old_text,
                                 const Value& new_text, Int count);

absl::StatusOr<std::vector<Value>> SplitLines(Interpreter& in, const Value& string, bool keep_ends);
// Splits `string` at `separator`, or at runs of white space if `separator` is null. If `splits_max`
// is 0 or more, `splits_max` limits the number of splits.
absl::StatusOr<std::vector<Value>> Split(Interpreter& in, const Value& string,
                                         const Value* separator, Int splits_max, bool from_right);

// Return the byte offset of the first and of the last occurrence of `needle`. Return nullopt if
// there is none. The time is linear in the sizes of both texts.
std::optional<size_t> FindBytes(std::string_view haystack, std::string_view needle);
std::optional<size_t> FindLastBytes(std::string_view haystack, std::string_view needle);

// Returns str.isupper() or, if `upper` is false, str.islower(): at least one character has this
// case, and no character has another case.
bool HasOnlyCase(std::string_view bytes, bool upper);

// Adds copies of the character `fill` at a side, up to a length of `width` characters, like
// str.center().
absl::StatusOr<Value> Pad(Interpreter& in, const Value& string, Int width, const Value& fill,
                          Side side);

}  // namespace incipit::jinja
