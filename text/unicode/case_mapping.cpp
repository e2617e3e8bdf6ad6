#include "text/unicode/case_mapping.h"

#include <utf8proc.h>

#include "base/check.h"
#include "text/unicode/unicode_tables.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

void AppendFolded(utf8proc_int32_t character, std::string& text) {
  constexpr utf8proc_ssize_t kLengthMax = 4;
  utf8proc_int32_t folded[kLengthMax];
  const utf8proc_ssize_t length =
      utf8proc_decompose_char(character, folded, kLengthMax, UTF8PROC_CASEFOLD, nullptr);
  INCIPIT_CHECK(length >= 0 && length <= kLengthMax);
  for (utf8proc_ssize_t i = 0; i < length; ++i) AppendUtf8(static_cast<char32_t>(folded[i]), text);
}

template <utf8proc_int32_t (*mapped_by_library)(utf8proc_int32_t)>
void AppendMapped(char32_t character, UnicodeExceptions exceptions, std::string& text) {
  const UnicodeException* found = FindException(exceptions, character);
  if (found == nullptr) {
    const utf8proc_int32_t mapped = mapped_by_library(static_cast<utf8proc_int32_t>(character));
    return AppendUtf8(static_cast<char32_t>(mapped), text);
  }
  constexpr int kBits = 20;
  int64_t mapped = found->value + (character - found->first);
  for (; mapped != 0; mapped >>= kBits) {
    AppendUtf8(static_cast<char32_t>(mapped & ((1 << kBits) - 1)), text);
  }
}

}  // namespace

void AppendMappedBeyondAscii(char32_t character, CaseMapping mapping, std::string& text) {
  switch (mapping) {
    case CaseMapping::kLower:
      return AppendMapped<utf8proc_tolower>(character, kPythonLower, text);
    case CaseMapping::kUpper:
      return AppendMapped<utf8proc_toupper>(character, kPythonUpper, text);
    case CaseMapping::kTitle:
      return AppendMapped<utf8proc_totitle>(character, kPythonTitle, text);
    case CaseMapping::kFold:
      return AppendFolded(static_cast<utf8proc_int32_t>(character), text);
  }
}

void AppendLowercase(char32_t character, std::string& text) {
  if (character < 0x80) {
    const bool is_capital = character >= 'A' && character <= 'Z';
    text += static_cast<char>(is_capital ? character + 32 : character);
    return;
  }
  AppendMapped<utf8proc_tolower>(character, kRustLower, text);
}

}  // namespace incipit
