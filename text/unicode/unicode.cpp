#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/unicode/unicode_tables.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

bool Composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

// Whether a character is its own normal form, and does not combine with what is before it. Says no
// to some for which that is true.
bool IsStable(NormalForm form, char32_t character) {
  if (character < 0xA0) return true;
  if (form == NormalForm::kNfc && character < 0x300) return true;
  if (character >= 0xAC00 && character <= 0xD7A3) return Composes(form);  // Hangul syllables
  if (character >= 0x1160 && character <= 0x11FF) return false;           // Hangul letters
  constexpr uint16_t kNoDecomposition = UINT16_MAX;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(character));
  const bool is_mark =
      property->category >= UTF8PROC_CATEGORY_MN && property->category <= UTF8PROC_CATEGORY_ME;
  return !is_mark && property->decomp_seqindex == kNoDecomposition;
}

// Whether a character neither changes nor combines nor is put in order.
bool IsInert(char32_t character) {
  // One before the first trailing consonant of Hangul, which utf8proc composes as if it were one.
  constexpr char32_t kHangulTrailingBase = 0x11A7;
  if (character == kHangulTrailingBase) return true;
  return FindException(kInertInNormalForms, character) != nullptr;
}

utf8proc_option_t OptionsOf(NormalForm form) {
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (Composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

// The normal form of a part that neither begins nor ends between characters that combine.
class PartNormalizer {
 public:
  explicit PartNormalizer(NormalForm form) : options_(OptionsOf(form)) {}

  void Append(std::string_view part, std::string& text) {
    characters_.clear();
    for (size_t position = 0; position < part.size();) {
      const char32_t character = NextCodePoint(part, position);
      if (IsInert(character)) {
        Flush(text);
        AppendUtf8(character, text);
      } else {
        Decompose(character);
      }
    }
    Flush(text);
  }

 private:
  void Decompose(char32_t character) {
    constexpr utf8proc_ssize_t kDecompositionMax = 32;
    const size_t begin = characters_.size();
    characters_.resize(begin + kDecompositionMax);
    const utf8proc_ssize_t length =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character),
                                characters_.data() + begin, kDecompositionMax, options_, nullptr);
    INCIPIT_CHECK(length >= 0 && length <= kDecompositionMax);
    characters_.resize(begin + length);
  }

  // Canonical order: runs of combining characters are sorted by their class. utf8proc sorts by
  // exchanging neighbours, which takes too long for long runs.
  void Order() {
    const auto class_of = [](utf8proc_int32_t c) {
      return utf8proc_get_property(c)->combining_class;
    };
    const auto is_before = [&](auto a, auto b) { return class_of(a) < class_of(b); };
    for (auto begin = characters_.begin(); begin != characters_.end();) {
      auto end = begin;
      utf8proc_propval_t last_class = class_of(*end);
      bool is_ordered = true;
      while (last_class != 0 && ++end != characters_.end()) {
        const utf8proc_propval_t next_class = class_of(*end);
        is_ordered = is_ordered && (next_class == 0 || last_class <= next_class);
        last_class = next_class;
      }
      if (!is_ordered) std::stable_sort(begin, end, is_before);
      begin = end == characters_.end() ? end : end + 1;
    }
  }

  void Flush(std::string& text) {
    if (characters_.empty()) return;
    Order();
    const utf8proc_ssize_t length = utf8proc_normalize_utf32(
        characters_.data(), static_cast<utf8proc_ssize_t>(characters_.size()), options_);
    INCIPIT_CHECK(length >= 0);
    for (utf8proc_ssize_t i = 0; i < length; ++i) {
      AppendUtf8(static_cast<char32_t>(characters_[i]), text);
    }
    characters_.clear();
  }

  utf8proc_option_t options_;
  std::vector<utf8proc_int32_t> characters_;
};

}  // namespace

void Normalize(NormalForm form, std::string_view text, NormalFormSink emit) {
  PartNormalizer normalizer(form);
  std::string part;
  size_t emitted = 0;
  size_t previous = 0;  // where the character before `position` begins
  for (size_t position = 0; position < text.size();) {
    size_t next = position;
    if (IsStable(form, NextCodePoint(text, next))) {
      previous = position;
      position = next;
      continue;
    }
    // It may combine with the character before it, unless that is done already.
    const size_t begin = std::max(previous, emitted);
    if (begin > emitted) emit(emitted, begin, text.substr(emitted, begin - emitted));
    while (next < text.size()) {
      size_t after = next;
      if (IsStable(form, NextCodePoint(text, after))) break;
      next = after;
    }
    part.clear();
    normalizer.Append(text.substr(begin, next - begin), part);
    emit(begin, next, part);
    emitted = previous = position = next;
  }
  if (emitted < text.size()) emit(emitted, text.size(), text.substr(emitted));
}

}  // namespace incipit
