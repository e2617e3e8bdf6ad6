// Checks every property and mapping for all code points by a count and a checksum. Both change if
// the tables, the code that uses them, or the Unicode version of a library change.
#include "text/unicode/unicode.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime/python_characters.h"
#include "text/unicode/case_mapping.h"
#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

struct Fingerprint {
  int count = 0;
  uint32_t checksum = 0x811C9DC5;  // FNV-1a hash

  void Add(std::string_view bytes) {
    ++count;
    for (const char byte : bytes) {
      checksum = (checksum ^ static_cast<unsigned char>(byte)) * 0x01000193;
    }
  }
  bool operator==(const Fingerprint&) const = default;
};

void PrintTo(const Fingerprint& print, std::ostream* out) {
  *out << fmt::format("{{{}, 0x{:08X}}}", print.count, print.checksum);
}

Fingerprint Of(const CodePointSet& set) {
  Fingerprint print;
  for (const auto& [first, last] : set.ranges()) {
    for (char32_t c = first; c <= last; ++c) {
      std::string character;
      AppendUtf8(c, character);
      print.Add(character);
    }
  }
  return print;
}

template <typename Predicate>
Fingerprint OfPredicate(Predicate predicate) {
  CodePointSet set;
  for (char32_t c = 0; c <= kCodePointMax; ++c) {
    if (predicate(c)) set.Add(c, c);
  }
  return Of(set);
}

// Counts the characters that the function `append` maps to other text, and hashes the results.
template <typename Append>
Fingerprint OfMapping(Append append) {
  Fingerprint print;
  for (char32_t c = 0; c <= kCodePointMax; ++c) {
    std::string character, mapped;
    AppendUtf8(c, character);
    append(c, mapped);
    if (mapped != character) print.Add(character + mapped);
  }
  return print;
}

TEST(UnicodeTest, RunsOfMarksOfAnyLengthArePutInOrder) {
  const Normalization normalization(NormalForm::kNfc);
  for (const int length : {1, 5, 31, 32, 33, 1000}) {
    std::string text = "ASCII text, a", below, above;
    for (int i = 0; i < length; ++i) {
      text += "\u0301\u0316";  // an acute accent above and a grave accent below
      below += "\u0316";
      if (i > 0) above += "\u0301";
    }
    std::string normalized;
    normalization.Apply(text + "bcdefghijk",
                        [&](size_t, size_t, std::string_view part) { normalized += part; });
    EXPECT_EQ(normalized, "ASCII text, \u00E1" + below + above + "bcdefghijk");
  }
}

TEST(UnicodeTest, SetsOfTheReferenceTokenizer) {
  EXPECT_EQ(Of(NumericCharacters()), (Fingerprint{1924, 0xFE6D70CD}));
  EXPECT_EQ(Of(PunctuationCharacters()), (Fingerprint{726, 0xD0AD9BB4}));
  EXPECT_EQ(Of(WordCharacters()), (Fingerprint{144667, 0x62EDC2D3}));
  EXPECT_EQ(Of(CombiningMarks()), (Fingerprint{2097, 0x93A15292}));
  EXPECT_EQ(Of(WhitespaceCharacters()), (Fingerprint{25, 0x86E3F8EA}));
}

TEST(UnicodeTest, PropertiesOfExpressions) {
  const struct {
    std::string_view name;
    Fingerprint print;
  } kProperties[] = {
      {"Lu", {1858, 0x0B1C95F0}},
      {"Ll", {2258, 0x9C44D7DF}},
      {"Lt", {31, 0xEAD356AE}},
      {"Lm", {404, 0x15C34DC4}},
      {"Lo", {136477, 0x728B4561}},
      {"Mn", {2020, 0xAD0F1792}},
      {"Mc", {468, 0xF3D1A52F}},
      {"Me", {13, 0xFF1FEBD1}},
      {"Nd", {760, 0x2A439F6D}},
      {"Nl", {236, 0xDE91DA7A}},
      {"No", {915, 0x95079C83}},
      {"P", {855, 0x50D88616}},
      {"S", {8514, 0x73D00714}},
      {"Z", {19, 0xF76801E8}},
      {"Cc", {65, 0xDED1B7AE}},
      {"Cf", {170, 0xFDD12B0E}},
      {"Co", {137468, 0x1F2532BD}},
      {"Cs", {2048, 0xCE1536C5}},
      {"Cn", {819533, 0x7F3460D5}},
      {"word", {144665, 0x87C986EC}},
      {"alnum", {143519, 0x5586E0CF}},
      {"graph", {292447, 0x73BDB7A3}},
      {"Alphabetic", {142759, 0xEBCD5F63}},
      {"Lowercase", {2569, 0x2D629D24}},
      {"Uppercase", {1978, 0xB8B20DBA}},
      {"Emoji", {1431, 0x281E23D5}},
      {"Latin", {1487, 0x727BA9A5}},
      {"Han", {99030, 0x4B83A727}},
      {"Cyrillic", {508, 0x5EADC93F}},
      {"Common", {9053, 0xBDC0BA75}},
      {"Garay", {69, 0xDD3A944B}},
  };
  RegexProperties properties;
  EXPECT_EQ(Of(properties.WordCharacters()), (Fingerprint{144671, 0xD0264603}));
  for (const auto& [name, print] : kProperties) {
    const std::optional<CodePointSet> set = properties.Property(name);
    ASSERT_TRUE(set) << name;
    EXPECT_EQ(Of(*set), print) << name;
  }
}

TEST(UnicodeTest, PropertiesOfPythonStrings) {
  EXPECT_EQ(OfPredicate(jinja::IsSpace), (Fingerprint{29, 0xBF0B92BA}));
  EXPECT_EQ(OfPredicate(jinja::IsAlphabetic), (Fingerprint{131756, 0x8ADE1417}));
  EXPECT_EQ(OfPredicate(jinja::IsDecimal), (Fingerprint{660, 0x44FBDB7B}));
  EXPECT_EQ(OfPredicate(jinja::IsDigit), (Fingerprint{788, 0x27A99F60}));
  EXPECT_EQ(OfPredicate(jinja::IsNumeric), (Fingerprint{1872, 0x8BC7C289}));
  EXPECT_EQ(OfPredicate(jinja::IsAlphanumeric), (Fingerprint{133547, 0xE34EB466}));
  EXPECT_EQ(OfPredicate(jinja::IsLowercase), (Fingerprint{2471, 0x4F41639E}));
  EXPECT_EQ(OfPredicate(jinja::IsUppercase), (Fingerprint{1951, 0x66AA2A24}));
  EXPECT_EQ(OfPredicate(jinja::IsTitlecase), (Fingerprint{31, 0xEAD356AE}));
  EXPECT_EQ(OfPredicate(jinja::IsCaseIgnorable), (Fingerprint{2602, 0x3F2D08C0}));
  EXPECT_EQ(OfPredicate(jinja::IsPrintable), (Fingerprint{144516, 0x60BA6E9F}));
  const auto append_value = [](char32_t c, std::string& text) {
    text += std::to_string(jinja::DecimalValue(c));
  };
  EXPECT_EQ(OfMapping(append_value), (Fingerprint{1114102, 0xF50422AD}));
}

TEST(UnicodeTest, CaseMappings) {
  const auto python = [](CaseMapping mapping) {
    return OfMapping([&](char32_t c, std::string& text) { AppendMapped(c, mapping, text); });
  };
  EXPECT_EQ(python(CaseMapping::kLower), (Fingerprint{1433, 0xA1290ABA}));
  EXPECT_EQ(python(CaseMapping::kUpper), (Fingerprint{1525, 0x2607473A}));
  EXPECT_EQ(python(CaseMapping::kTitle), (Fingerprint{1452, 0xA8191E4F}));
  EXPECT_EQ(python(CaseMapping::kFold), (Fingerprint{1530, 0x517B3312}));
  EXPECT_EQ(OfMapping(AppendLowercase), (Fingerprint{1488, 0xF52BDC9C}));
}

}  // namespace
}  // namespace incipit
