#include "text/unicode/unicode_properties.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "text/regex/pcre2_handles.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

using CategoryMask = uint32_t;  // bit i: the category that utf8proc numbers i

constexpr CategoryMask Bit(utf8proc_category_t category) { return 1u << category; }

constexpr CategoryMask kCasedLetter =
    Bit(UTF8PROC_CATEGORY_LU) | Bit(UTF8PROC_CATEGORY_LL) | Bit(UTF8PROC_CATEGORY_LT);
constexpr CategoryMask kLetter =
    kCasedLetter | Bit(UTF8PROC_CATEGORY_LM) | Bit(UTF8PROC_CATEGORY_LO);
constexpr CategoryMask kMark =
    Bit(UTF8PROC_CATEGORY_MN) | Bit(UTF8PROC_CATEGORY_MC) | Bit(UTF8PROC_CATEGORY_ME);
constexpr CategoryMask kNumber =
    Bit(UTF8PROC_CATEGORY_ND) | Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_NO);
constexpr CategoryMask kPunctuation = Bit(UTF8PROC_CATEGORY_PC) | Bit(UTF8PROC_CATEGORY_PD) |
                                      Bit(UTF8PROC_CATEGORY_PS) | Bit(UTF8PROC_CATEGORY_PE) |
                                      Bit(UTF8PROC_CATEGORY_PI) | Bit(UTF8PROC_CATEGORY_PF) |
                                      Bit(UTF8PROC_CATEGORY_PO);
constexpr CategoryMask kSymbol = Bit(UTF8PROC_CATEGORY_SM) | Bit(UTF8PROC_CATEGORY_SC) |
                                 Bit(UTF8PROC_CATEGORY_SK) | Bit(UTF8PROC_CATEGORY_SO);
constexpr CategoryMask kSeparator =
    Bit(UTF8PROC_CATEGORY_ZS) | Bit(UTF8PROC_CATEGORY_ZL) | Bit(UTF8PROC_CATEGORY_ZP);
constexpr CategoryMask kUnassigned = Bit(UTF8PROC_CATEGORY_CN);
constexpr CategoryMask kOther = kUnassigned | Bit(UTF8PROC_CATEGORY_CC) |
                                Bit(UTF8PROC_CATEGORY_CF) | Bit(UTF8PROC_CATEGORY_CS) |
                                Bit(UTF8PROC_CATEGORY_CO);
constexpr CategoryMask kAll =
    kLetter | kMark | kNumber | kPunctuation | kSymbol | kSeparator | kOther;
constexpr CategoryMask kWord = kLetter | kMark | Bit(UTF8PROC_CATEGORY_ND) |
                               Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_PC);

// Ranges of unassigned planes, which need not be asked about.
bool SkipUnassigned(char32_t& code_point) {
  if (code_point == 0x40000) code_point = 0xE0000;
  return code_point <= kCodePointMax;
}

CodePointSet LibraryCategories(CategoryMask mask) {
  CodePointSet set;
  if (mask & kUnassigned) set.Add(0x40000, 0xDFFFF);
  for (char32_t c = 0; SkipUnassigned(c); ++c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (mask >> category & 1) set.Add(c, c);
  }
  return set;
}

void Apply(std::span<const CodePointFlag> changes, CodePointSet& set) {
  for (const CodePointFlag& change : changes) {
    if (change.value) {
      set.Add(change.first, change.last);
    } else {
      set.Remove(change.first, change.last);
    }
  }
}

struct NamedCategories {
  std::string_view name, long_name;
  CategoryMask mask;
};
constexpr NamedCategories kNamedCategories[] = {
    {"l", "letter", kLetter},
    {"lc", "casedletter", kCasedLetter},
    {"lu", "uppercaseletter", Bit(UTF8PROC_CATEGORY_LU)},
    {"ll", "lowercaseletter", Bit(UTF8PROC_CATEGORY_LL)},
    {"lt", "titlecaseletter", Bit(UTF8PROC_CATEGORY_LT)},
    {"lm", "modifierletter", Bit(UTF8PROC_CATEGORY_LM)},
    {"lo", "otherletter", Bit(UTF8PROC_CATEGORY_LO)},
    {"m", "mark", kMark},
    {"mn", "nonspacingmark", Bit(UTF8PROC_CATEGORY_MN)},
    {"mc", "spacingmark", Bit(UTF8PROC_CATEGORY_MC)},
    {"me", "enclosingmark", Bit(UTF8PROC_CATEGORY_ME)},
    {"n", "number", kNumber},
    {"nd", "decimalnumber", Bit(UTF8PROC_CATEGORY_ND)},
    {"nl", "letternumber", Bit(UTF8PROC_CATEGORY_NL)},
    {"no", "othernumber", Bit(UTF8PROC_CATEGORY_NO)},
    {"p", "punctuation", kPunctuation},
    {"pc", "connectorpunctuation", Bit(UTF8PROC_CATEGORY_PC)},
    {"pd", "dashpunctuation", Bit(UTF8PROC_CATEGORY_PD)},
    {"ps", "openpunctuation", Bit(UTF8PROC_CATEGORY_PS)},
    {"pe", "closepunctuation", Bit(UTF8PROC_CATEGORY_PE)},
    {"pi", "initialpunctuation", Bit(UTF8PROC_CATEGORY_PI)},
    {"pf", "finalpunctuation", Bit(UTF8PROC_CATEGORY_PF)},
    {"po", "otherpunctuation", Bit(UTF8PROC_CATEGORY_PO)},
    {"s", "symbol", kSymbol},
    {"sm", "mathsymbol", Bit(UTF8PROC_CATEGORY_SM)},
    {"sc", "currencysymbol", Bit(UTF8PROC_CATEGORY_SC)},
    {"sk", "modifiersymbol", Bit(UTF8PROC_CATEGORY_SK)},
    {"so", "othersymbol", Bit(UTF8PROC_CATEGORY_SO)},
    {"z", "separator", kSeparator},
    {"zs", "spaceseparator", Bit(UTF8PROC_CATEGORY_ZS)},
    {"zl", "lineseparator", Bit(UTF8PROC_CATEGORY_ZL)},
    {"zp", "paragraphseparator", Bit(UTF8PROC_CATEGORY_ZP)},
    {"c", "other", kOther},
    {"cc", "control", Bit(UTF8PROC_CATEGORY_CC)},
    {"cf", "format", Bit(UTF8PROC_CATEGORY_CF)},
    {"cn", "unassigned", kUnassigned},
    {"co", "privateuse", Bit(UTF8PROC_CATEGORY_CO)},
    {"cs", "surrogate", Bit(UTF8PROC_CATEGORY_CS)},
    {"any", "any", kAll},
    {"assigned", "assigned", kAll & ~kUnassigned},
    {"punct", "punct", kPunctuation},
    {"cntrl", "cntrl", Bit(UTF8PROC_CATEGORY_CC)},
    {"digit", "digit", Bit(UTF8PROC_CATEGORY_ND)},
};

std::string LooseName(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    loose += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return loose;
}

// Every character but surrogates and most of those that no version of Unicode uses.
std::string AllCharacters() {
  std::string text;
  for (char32_t c = 0; SkipUnassigned(c); ++c) {
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, text);
  }
  return text;
}

// The property as PCRE2 knows it; nothing if it does not.
std::optional<CodePointSet> LibraryProperty(const std::string& name) {
  const std::string pattern = "\\p{" + name + "}";
  int error = 0;
  PCRE2_SIZE offset = 0;
  const Pcre2Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (code == nullptr) return std::nullopt;
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const Pcre2MatchData match_data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const std::string text = AllCharacters();
  CodePointSet set;
  PCRE2_SIZE start = 0;
  while (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                     PCRE2_NO_UTF_CHECK, match_data.get(), nullptr) > 0) {
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_data.get());
    size_t position = bounds[0];
    const char32_t character = NextCodePoint(text, position);
    set.Add(character, character);
    start = bounds[1];
  }
  return set;
}

// A script, or one of the other properties that the tables cover.
std::optional<CodePointSet> ScriptOrProperty(const std::string& name) {
  constexpr std::string_view kOthers[] = {"alphabetic", "lowercase", "uppercase",
                                          "whitespace", "emoji",     "extendedpictographic",
                                          "ideographic"};
  const bool is_other = std::ranges::find(kOthers, name) != std::end(kOthers);
  std::optional<CodePointSet> set = LibraryProperty(is_other ? name : "sc:" + name);
  for (const PropertyChange& change : PropertyChanges()) {
    if (change.property != name) continue;
    if (!set) set.emplace();
    if (change.value) {
      set->Add(change.first, change.last);
    } else {
      set->Remove(change.first, change.last);
    }
  }
  return set;
}

CodePointSet Join(CodePointSet set, const CodePointSet& other) {
  set.Add(other);
  return set;
}

}  // namespace

CodePointSet WhitespaceCharacters() {
  return CodePointSet({{0x9, 0xD},
                       {0x20, 0x20},
                       {0x85, 0x85},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000}});
}

CodePointSet NumericCharacters() {
  CodePointSet set = LibraryCategories(kNumber);
  Apply(NumericChanges(), set);
  return set;
}

CodePointSet PunctuationCharacters() {
  CodePointSet set = LibraryCategories(kPunctuation);
  for (const char c : std::string_view("$+<=>^`|~")) set.Add(c, c);
  Apply(PunctuationChanges(), set);
  return set;
}

CodePointSet WordCharacters() {
  CodePointSet set = LibraryCategories(kWord);
  Apply(WordChanges(), set);
  return set;
}

CodePointSet CombiningMarks() {
  CodePointSet set = LibraryCategories(kMark);
  Apply(MarkChanges(), set);
  return set;
}

CodePointSet RegexProperties::Categories(CategoryMask mask) {
  if (categories_.empty()) {
    const auto add = [&](char32_t first, char32_t last, uint8_t category) {
      if (!categories_.empty() && categories_.back().category == category) {
        categories_.back().last = last;
      } else {
        categories_.push_back({first, last, category});
      }
    };
    auto change = CategoryChanges().begin();
    for (char32_t c = 0; c <= kCodePointMax; ++c) {
      const char32_t skipped_from = c;
      if (!SkipUnassigned(c)) break;
      if (c > skipped_from) add(skipped_from, c - 1, UTF8PROC_CATEGORY_CN);
      while (change != CategoryChanges().end() && change->last < c) ++change;
      const bool is_changed = change != CategoryChanges().end() && change->first <= c;
      const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
      add(c, c, is_changed ? change->category : static_cast<uint8_t>(category));
    }
  }
  CodePointSet set;
  for (const CategoryChange& range : categories_) {
    if (mask >> range.category & 1) set.Add(range.first, range.last);
  }
  return set;
}

// The names of POSIX brackets that are neither categories nor properties.
std::optional<CodePointSet> RegexProperties::PosixClass(const std::string& name) {
  if (name == "ascii") return CodePointSet({{0, 0x7F}});
  if (name == "xdigit") return CodePointSet({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  if (name == "blank") {
    return Join(Categories(Bit(UTF8PROC_CATEGORY_ZS)), CodePointSet({{'\t', '\t'}}));
  }
  if (name == "space") return WhitespaceCharacters();
  if (name == "alpha") return ScriptOrProperty("alphabetic");
  if (name == "upper") return ScriptOrProperty("uppercase");
  if (name == "lower") return ScriptOrProperty("lowercase");
  if (name == "word") {  // with the letters in circles and squares, which are symbols
    const CodePointSet symbols(
        {{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
    return Join(Categories(kWord), symbols);
  }
  if (name == "alnum") {
    return Join(*ScriptOrProperty("alphabetic"), Categories(Bit(UTF8PROC_CATEGORY_ND)));
  }
  if (name == "graph" || name == "print") {
    const CategoryMask invisible =
        kUnassigned | Bit(UTF8PROC_CATEGORY_CC) | Bit(UTF8PROC_CATEGORY_CS);
    CodePointSet set = Join(Categories(invisible), WhitespaceCharacters());
    set.Invert();
    if (name == "print") set.Add(Categories(Bit(UTF8PROC_CATEGORY_ZS)));
    return set;
  }
  return std::nullopt;
}

CodePointSet RegexProperties::WordCharacters() {
  return Join(*Property("word"), CodePointSet({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}));
}

std::optional<CodePointSet> RegexProperties::Property(std::string_view name) {
  const std::string loose = LooseName(name);
  for (const NamedCategories& named : kNamedCategories) {
    if (loose == named.name || loose == named.long_name) return Categories(named.mask);
  }
  if (auto posix = PosixClass(loose)) return posix;
  return ScriptOrProperty(loose);
}

}  // namespace incipit
