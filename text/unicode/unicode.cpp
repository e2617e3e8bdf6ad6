#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/unicode/unicode_tables.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr char32_t kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;  // Hangul syllables

bool Composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

bool HasDecomposition(const utf8proc_property_t& property) {
  constexpr uint16_t kNoDecomposition = UINT16_MAX;
  return property.decomp_seqindex != kNoDecomposition;
}

// Returns false if normalization to `form` may change `character` or combine it with the previous
// character.
bool IsStableIn(NormalForm form, char32_t character, const utf8proc_property_t& property) {
  if (character < 0xA0) return true;
  if (form == NormalForm::kNfc && character < 0x300) return true;
  if (character >= kHangulFirst && character <= kHangulLast) return Composes(form);
  if (character >= 0x1160 && character <= 0x11FF) return false;  // may combine
  const bool is_mark =
      property.category >= UTF8PROC_CATEGORY_MN && property.category <= UTF8PROC_CATEGORY_ME;
  return !is_mark && !HasDecomposition(property);
}

utf8proc_option_t OptionsOf(NormalForm form) {
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (Composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

}  // namespace

Normalization::Normalization(NormalForm form) : form_(form) {
  // Code points in [0x40000, 0xE0000) need no properties, because normalization never changes or
  // combines them.
  const CodePointSet with_properties({{0, 0x3FFFF}, {0xE0000, 0xE0FFF}});
  for (const auto& [first, last] : with_properties.ranges()) {
    for (char32_t c = first; c <= last; ++c) {
      const auto& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
      if (!IsStableIn(form, c, property)) kinds_.AddBits(c, kUnstable);
      const bool is_syllable = c >= kHangulFirst && c <= kHangulLast;
      if (is_syllable || HasDecomposition(property)) kinds_.AddBits(c, kDecomposes);
      if (property.combining_class != 0) {
        classes_.AddBits(c, static_cast<uint8_t>(property.combining_class));
      }
    }
  }
  // Normalization must not change U+11A7. utf8proc would treat U+11A7 as a trailing consonant of
  // Hangul, so never pass it to utf8proc.
  constexpr char32_t kHangulTrailingBase = 0x11A7;
  kinds_.AddBits(kHangulTrailingBase, kInert);
  for (const UnicodeException& inert : kInertInNormalForms) {
    for (char32_t c = inert.first; c <= inert.last; ++c) kinds_.AddBits(c, kInert);
  }
}

// Normalizes parts of a text, one part per call of Append(). REQUIRES: no character in a part can
// combine with a character outside of the part.
class Normalization::Part {
 public:
  explicit Part(const Normalization& tables) : tables_(tables), options_(OptionsOf(tables.form_)) {}

  void Append(std::string_view part, std::string& text) {
    characters_.clear();
    for (size_t position = 0; position < part.size();) {
      const char32_t character = NextCodePoint(part, position);
      const uint8_t kind = tables_.kinds_[character];
      if ((kind & kInert) != 0) {
        Flush(text);
        AppendUtf8(character, text);
      } else if ((kind & kDecomposes) != 0) {
        Decompose(character);
      } else {
        characters_.push_back(static_cast<utf8proc_int32_t>(character));
      }
    }
    Flush(text);
  }

 private:
  void Decompose(char32_t character) {
    constexpr utf8proc_ssize_t kDecompositionMax = 32;
    std::array<utf8proc_int32_t, kDecompositionMax> parts;
    const utf8proc_ssize_t length =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts.data(),
                                kDecompositionMax, options_, nullptr);
    INCIPIT_CHECK(length >= 0 && length <= kDecompositionMax);
    characters_.insert(characters_.end(), parts.begin(), parts.begin() + length);
  }

  uint8_t ClassOf(utf8proc_int32_t character) const {
    return tables_.classes_[static_cast<char32_t>(character)];
  }

  // Sorts consecutive combining characters by their canonical combining class (Unicode Standard,
  // section 3.11, "Canonical Ordering Algorithm").
  void Order() {
    size_t begin = 0;
    uint8_t last_class = 0;
    bool is_ordered = true;
    for (size_t i = 0; i < characters_.size(); ++i) {
      const uint8_t next_class = ClassOf(characters_[i]);
      if (next_class == 0) {
        if (!is_ordered) SortRun(begin, i);
        begin = i + 1;
        is_ordered = true;
      } else {
        is_ordered = is_ordered && last_class <= next_class;
      }
      last_class = next_class;
    }
    if (!is_ordered) SortRun(begin, characters_.size());
  }

  void SortRun(size_t begin, size_t end) {
    constexpr size_t kCountingMin = 64;
    const auto first = characters_.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = characters_.begin() + static_cast<ptrdiff_t>(end);
    if (end - begin < kCountingMin) {
      std::stable_sort(first, last, [&](auto a, auto b) { return ClassOf(a) < ClassOf(b); });
      return;
    }
    run_.assign(first, last);
    // places[k] is the position in the sorted range for the next character with the combining class
    // k.
    std::array<size_t, 257> places{};
    for (const auto character : run_) ++places[ClassOf(character) + 1];
    for (size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
    for (const auto character : run_) {
      characters_[begin + places[ClassOf(character)]++] = character;
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

  const Normalization& tables_;
  utf8proc_option_t options_;
  std::vector<utf8proc_int32_t> characters_;
  std::vector<utf8proc_int32_t> run_;
};

void Normalization::Apply(std::string_view text, Sink emit) const {
  Part normalizer(*this);
  std::string part;
  size_t emitted = 0;
  size_t previous = 0;  // byte offset of the character before `position`
  for (size_t position = 0; position < text.size();) {
    if (AreAscii(text, position)) {  // normal forms do not change ASCII
      position += sizeof(uint64_t);
      previous = position - 1;
      continue;
    }
    size_t next = position;
    if (IsStable(NextCodePoint(text, next))) {
      previous = position;
      position = next;
      continue;
    }
    // The range to normalize begins at the previous character, which may combine with the character
    // at `position`. If the previous character was already emitted, the range begins at `position`.
    const size_t begin = std::max(previous, emitted);
    if (begin > emitted) emit(emitted, begin, text.substr(emitted, begin - emitted));
    while (next < text.size()) {
      size_t after = next;
      if (IsStable(NextCodePoint(text, after))) break;
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
