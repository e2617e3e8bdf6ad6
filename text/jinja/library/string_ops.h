// Python's operations on strings that both methods and filters use. Marks of origin follow the
// characters. Every result of a string marked safe is marked safe.
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
// A range of bytes, as if there were nothing around it.
absl::Status AppendCase(Interpreter& in, const Text& source, size_t begin, size_t end, CaseOp op,
                        TextBuilder& out);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// `chars` may be null: white space.
absl::StatusOr<Value> Strip(Interpreter& in, const Value& string, const Value* chars, Side side);

// `count` below zero: all.
absl::StatusOr<Value> ReplaceAll(Interpreter& in, const Value& string, const Value& old_text,
                                 const Value& new_text, Int count);

absl::StatusOr<std::vector<Value>> SplitLines(Interpreter& in, const Value& string, bool keep_ends);
// `separator` may be null: runs of white space. `splits_max` below zero: no limit.
absl::StatusOr<std::vector<Value>> Split(Interpreter& in, const Value& string,
                                         const Value* separator, Int splits_max, bool from_right);

// The byte offset of the first (last) occurrence; nullopt if there is none. Linear in the sizes.
std::optional<size_t> FindBytes(std::string_view haystack, std::string_view needle);
std::optional<size_t> FindLastBytes(std::string_view haystack, std::string_view needle);

// str.islower and str.isupper: something has this case, and nothing another.
bool HasOnlyCase(std::string_view bytes, bool upper);

// Adds `fill`, one character, at a side up to `width` characters, as str.center and its kin do.
absl::StatusOr<Value> Pad(Interpreter& in, const Value& string, Int width, const Value& fill,
                          Side side);

}  // namespace incipit::jinja
