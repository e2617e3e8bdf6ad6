#include "text/unicode/unicode_properties.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "text/regex/pcre2_handles.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr CategoryMask kWord =
    category::kL | category::kM | category::kNd | category::kNl | category::kPc;

struct NamedCategories {
  std::string_view name, long_name;
  CategoryMask mask;
};
constexpr NamedCategories kNamedCategories[] = {
    {"l", "letter", category::kL},
    {"lc", "casedletter", category::kLC},
    {"lu", "uppercaseletter", category::kLu},
    {"ll", "lowercaseletter", category::kLl},
    {"lt", "titlecaseletter", category::kLt},
    {"lm", "modifierletter", category::kLm},
    {"lo", "otherletter", category::kLo},
    {"m", "mark", category::kM},
    {"mn", "nonspacingmark", category::kMn},
    {"mc", "spacingmark", category::kMc},
    {"me", "enclosingmark", category::kMe},
    {"n", "number", category::kN},
    {"nd", "decimalnumber", category::kNd},
    {"nl", "letternumber", category::kNl},
    {"no", "othernumber", category::kNo},
    {"p", "punctuation", category::kP},
    {"pc", "connectorpunctuation", category::kPc},
    {"pd", "dashpunctuation", category::kPd},
    {"ps", "openpunctuation", category::kPs},
    {"pe", "closepunctuation", category::kPe},
    {"pi", "initialpunctuation", category::kPi},
    {"pf", "finalpunctuation", category::kPf},
    {"po", "otherpunctuation", category::kPo},
    {"s", "symbol", category::kS},
    {"sm", "mathsymbol", category::kSm},
    {"sc", "currencysymbol", category::kSc},
    {"sk", "modifiersymbol", category::kSk},
    {"so", "othersymbol", category::kSo},
    {"z", "separator", category::kZ},
    {"zs", "spaceseparator", category::kZs},
    {"zl", "lineseparator", category::kZl},
    {"zp", "paragraphseparator", category::kZp},
    {"c", "other", category::kC},
    {"cc", "control", category::kCc},
    {"cf", "format", category::kCf},
    {"cn", "unassigned", category::kCn},
    {"co", "privateuse", category::kCo},
    {"cs", "surrogate", category::kCs},
    {"any", "any", category::kAny},
    {"assigned", "assigned", category::kAny & ~category::kCn},
    {"punct", "punct", category::kP},
    {"cntrl", "cntrl", category::kCc},
    {"digit", "digit", category::kNd},
};

std::string LooseName(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    loose += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return loose;
}

// Returns a text with all code points in ascending order, except surrogates and the unassigned
// range [0x40000, 0xE0000).
std::string AllCharacters() {
  std::string text;
  const CodePointSet all({{0, 0xD7FF}, {0xE000, 0x3FFFF}, {0xE0000, kCodePointMax}});
  for (const auto& [first, last] : all.ranges()) {
    for (char32_t c = first; c <= last; ++c) AppendUtf8(c, text);
  }
  return text;
}

// Returns all characters that have the property `name` according to the library PCRE2. Returns
// nothing if PCRE2 does not know the property.
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

// Returns all characters of the script `name` (such as "latin") or with the property `name` (such
// as "emoji"). Returns nothing for an unknown name.
std::optional<CodePointSet> ScriptOrProperty(const std::string& name) {
  constexpr std::string_view kOthers[] = {"alphabetic", "lowercase", "uppercase",
                                          "whitespace", "emoji",     "extendedpictographic",
                                          "ideographic"};
  const bool is_other = std::ranges::find(kOthers, name) != std::end(kOthers);
  std::optional<CodePointSet> set = LibraryProperty(is_other ? name : "sc:" + name);
  const auto found = std::ranges::find(kRegexProperties, name, &NamedExceptions::name);
  if (found == kRegexProperties.end()) return set;
  if (!set) set.emplace();
  Apply(found->exceptions, *set);
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
  return CharactersOf(CategoryRanges({}), category::kN, kRustNumeric);
}
CodePointSet PunctuationCharacters() {
  return CharactersOf(CategoryRanges({}), category::kP, kRustPunctuation);
}
CodePointSet WordCharacters() { return CharactersOf(CategoryRanges({}), kWord, kRustWord); }
CodePointSet CombiningMarks() { return CharactersOf(CategoryRanges({}), category::kM, kRustMark); }

CodePointSet RegexProperties::Categories(CategoryMask mask) {
  if (category_ranges_.empty()) category_ranges_ = CategoryRanges(kRegexCategories);
  return CharactersOf(category_ranges_, mask);
}

// Returns the characters of the POSIX bracket [:name:], for example for `name` = "xdigit". Returns
// nothing if `name` is unknown or is the name of a general category.
std::optional<CodePointSet> RegexProperties::PosixClass(const std::string& name) {
  if (name == "ascii") return CodePointSet({{0, 0x7F}});
  if (name == "xdigit") return CodePointSet({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  if (name == "blank") {
    return Join(Categories(category::kZs), CodePointSet({{'\t', '\t'}}));
  }
  if (name == "space") return WhitespaceCharacters();
  if (name == "alpha") return ScriptOrProperty("alphabetic");
  if (name == "upper") return ScriptOrProperty("uppercase");
  if (name == "lower") return ScriptOrProperty("lowercase");
  // The POSIX class [:word:] also contains letters in circles and squares, although these are
  // symbols in Unicode.
  if (name == "word") {
    const CodePointSet symbols(
        {{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
    return Join(Categories(kWord), symbols);
  }
  if (name == "alnum") {
    return Join(*ScriptOrProperty("alphabetic"), Categories(category::kNd));
  }
  if (name == "graph" || name == "print") {
    const CategoryMask invisible = category::kCn | category::kCc | category::kCs;
    CodePointSet set = Join(Categories(invisible), WhitespaceCharacters());
    set.Invert();
    if (name == "print") set.Add(Categories(category::kZs));
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
