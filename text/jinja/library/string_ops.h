// Python's operations on strings, for methods and filters. A result keeps two properties of the
// string: which bytes a client wrote (text.h), and whether the string needs HTML escapes.
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
// Appends the bytes [begin, end) of `source` to `out`, converted by `op`, for example to upper
// case.
absl::Status AppendCase(Interpreter& in, const Text& source, size_t begin, size_t end, CaseOp op,
                        TextBuilder& out);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Removes the characters in `chars` from the start, the end or both ends of `string`, depending on
// `side`. If `chars` is null, removes white space.
absl::StatusOr<Value> Strip(Interpreter& in, const Value& string, const Value* chars, Side side);

// Replaces the first `count` occurrences of `old_text` in `string` by `new_text`. If `count` is
// less than 0, replaces all occurrences.
absl::StatusOr<Value> ReplaceAll(Interpreter& in, const Value& string, const Value& old_text,
                                 const Value& new_text, Int count);

absl::StatusOr<std::vector<Value>> SplitLines(Interpreter& in, const Value& string, bool keep_ends);
// Splits `string` at `separator`, or at white space if `separator` is null. Splits at most
// `splits_max` times; a negative `splits_max` means no limit. If `from_right` is true, begins at
// the right end.
absl::StatusOr<std::vector<Value>> Split(Interpreter& in, const Value& string,
                                         const Value* separator, Int splits_max, bool from_right);

// Returns the byte offset of the first occurrence of `needle` in `haystack`. Returns nullopt if
// `needle` does not occur. The time is linear in the sizes of both texts.
std::optional<size_t> FindBytes(std::string_view haystack, std::string_view needle);
// Returns the result of Python's str.isupper() for `bytes`, or of str.islower() if `upper` is
// false.
bool HasOnlyCase(std::string_view bytes, bool upper);

}  // namespace incipit::jinja
