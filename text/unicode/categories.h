// General categories of Unicode (such as Lu, upper-case letter), and sets of characters by
// category.
#pragma once

#include <cstdint>
#include <vector>

#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode_tables.h"

namespace incipit {

// A set of general categories as a bit set. Bit i stands for the category with the number i in the
// library utf8proc.
using CategoryMask = uint32_t;

// General categories of Unicode, and groups of categories. The name after `k` is the name in
// Unicode, such as kLu for Lu (upper-case letter).
namespace category {
inline constexpr CategoryMask kCn = 1u << 0, kLu = 1u << 1, kLl = 1u << 2, kLt = 1u << 3,
                              kLm = 1u << 4, kLo = 1u << 5, kMn = 1u << 6, kMc = 1u << 7,
                              kMe = 1u << 8, kNd = 1u << 9, kNl = 1u << 10, kNo = 1u << 11,
                              kPc = 1u << 12, kPd = 1u << 13, kPs = 1u << 14, kPe = 1u << 15,
                              kPi = 1u << 16, kPf = 1u << 17, kPo = 1u << 18, kSm = 1u << 19,
                              kSc = 1u << 20, kSk = 1u << 21, kSo = 1u << 22, kZs = 1u << 23,
                              kZl = 1u << 24, kZp = 1u << 25, kCc = 1u << 26, kCf = 1u << 27,
                              kCs = 1u << 28, kCo = 1u << 29;
inline constexpr CategoryMask kLC = kLu | kLl | kLt, kL = kLC | kLm | kLo, kM = kMn | kMc | kMe,
                              kN = kNd | kNl | kNo, kP = kPc | kPd | kPs | kPe | kPi | kPf | kPo,
                              kS = kSm | kSc | kSk | kSo, kZ = kZs | kZl | kZp,
                              kC = kCn | kCc | kCf | kCs | kCo;
inline constexpr CategoryMask kAny = kL | kM | kN | kP | kS | kZ | kC;
}  // namespace category

// Returns the general categories of all characters as ranges of characters with the same category.
// The field `value` of a range is the number of the category in the library utf8proc. `exceptions`
// corrects categories of utf8proc. A call takes milliseconds.
std::vector<UnicodeException> CategoryRanges(UnicodeExceptions exceptions);

// Returns all characters with a category in `categories`. `category_ranges` is a result of
// CategoryRanges(). `exceptions` corrects the result: characters with value 1 are added, and
// characters with value 0 are removed.
CodePointSet CharactersOf(UnicodeExceptions category_ranges, CategoryMask categories,
                          UnicodeExceptions exceptions = {});

// Corrects `set`: adds the ranges in `exceptions` with value 1, and removes the ranges with value
// 0.
void Apply(UnicodeExceptions exceptions, CodePointSet& set);

}  // namespace incipit
