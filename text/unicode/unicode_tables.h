// What the reference tokenizer knows of Unicode and the packaged libraries do not, or know
// differently: its parts have versions of Unicode from 11 to 17.
// tools/make_tokenizer_unicode_tables.py finds the differences by asking both.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace incipit {

struct CodePointRange {
  char32_t first, last;
};
struct CodePointFlag {
  char32_t first, last;
  bool value;
};
struct CategoryChange {
  char32_t first, last;
  uint8_t category;  // as utf8proc numbers them
};
struct CaseOffset {
  char32_t first, last;
  int32_t to_lower;
};
struct PropertyChange {
  std::string_view property;  // small letters only
  char32_t first, last;
  bool value;
};

std::span<const CategoryChange> CategoryChanges();
std::span<const CodePointFlag> NumericChanges();
std::span<const CodePointFlag> PunctuationChanges();
std::span<const CodePointFlag> WordChanges();
std::span<const CodePointFlag> MarkChanges();
std::span<const CodePointRange> InertInNormalForms();
std::span<const CaseOffset> LowercaseChanges();
std::span<const PropertyChange> PropertyChanges();

}  // namespace incipit
