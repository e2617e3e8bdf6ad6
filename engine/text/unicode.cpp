#include "engine/text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <vector>

#include "base/check.h"
#include "engine/text/utf8.h"

namespace incipit {
namespace {

utf8proc_category_t CategoryOf(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool IsBetween(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

// Below this, every character is its own normal form and none changes with what follows it, but for
// combining marks, which are all above.
char32_t FirstAffected(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return 0x300;
    case NormalForm::kNfd:
      return 0xC0;
    case NormalForm::kNfkc:
    case NormalForm::kNfkd:
      return 0xA0;
  }
  return 0;
}

utf8proc_option_t OptionsOf(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (is_compatible) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void AppendNormalized(NormalForm form, std::string_view part, std::string& text) {
  const utf8proc_option_t options = OptionsOf(form);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(part.data());
  const auto num_bytes = static_cast<utf8proc_ssize_t>(part.size());
  std::vector<utf8proc_int32_t> characters(part.size() * 2 + 16);
  utf8proc_ssize_t num_characters =
      utf8proc_decompose(bytes, num_bytes, characters.data(),
                         static_cast<utf8proc_ssize_t>(characters.size()), options);
  if (num_characters > static_cast<utf8proc_ssize_t>(characters.size())) {
    characters.resize(num_characters);
    num_characters =
        utf8proc_decompose(bytes, num_bytes, characters.data(), num_characters, options);
  }
  INCIPIT_CHECK(num_characters >= 0);
  num_characters = utf8proc_normalize_utf32(characters.data(), num_characters, options);
  for (utf8proc_ssize_t i = 0; i < num_characters; ++i) {
    AppendUtf8(static_cast<char32_t>(characters[i]), text);
  }
}

}  // namespace

bool IsWhitespace(char32_t character) {
  if (character < 0x80) return (character >= 9 && character <= 13) || character == ' ';
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool IsNumeric(char32_t character) {
  return IsBetween(CategoryOf(character), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool IsPunctuation(char32_t character) {
  if (character < 0x80) {
    return character > ' ' && character < 0x7F && !(character >= '0' && character <= '9') &&
           !((character | 0x20) >= 'a' && (character | 0x20) <= 'z');
  }
  return IsBetween(CategoryOf(character), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool IsWordCharacter(char32_t character) {
  const utf8proc_category_t category = CategoryOf(character);
  return IsBetween(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_ND) ||
         category == UTF8PROC_CATEGORY_PC || character == 0x200C || character == 0x200D;
}

bool IsCombiningMark(char32_t character) {
  return IsBetween(CategoryOf(character), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

void AppendLowercase(char32_t character, std::string& text) {
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(character))), text);
  if (character == 0x130) AppendUtf8(0x307, text);
}

void Normalize(NormalForm form, std::string_view text, NormalFormSink emit) {
  const char32_t first_affected = FirstAffected(form);
  size_t unchanged = 0;  // from here on, nothing needed a change yet
  size_t previous = 0;   // where the character before `position` begins
  std::string part;
  for (size_t position = 0; position < text.size();) {
    size_t next = position;
    if (NextCodePoint(text, next) < first_affected) {
      previous = position;
      position = next;
      continue;
    }
    // What follows may combine with the character before it.
    const size_t begin = previous < unchanged ? position : previous;
    if (begin > unchanged) emit(unchanged, begin, text.substr(unchanged, begin - unchanged));
    while (next < text.size()) {
      size_t after = next;
      if (NextCodePoint(text, after) < first_affected) break;
      next = after;
    }
    part.clear();
    AppendNormalized(form, text.substr(begin, next - begin), part);
    emit(begin, next, part);
    unchanged = previous = position = next;
  }
  if (unchanged < text.size()) emit(unchanged, text.size(), text.substr(unchanged));
}

}  // namespace incipit
