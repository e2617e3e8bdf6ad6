#include "cli/analysis/analyze_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// Returns the number of Unicode code points in `text`, so that rows with non-ASCII text stay
// aligned.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Padded(std::string_view text, size_t width, TextTable::Align align) {
  const std::string padding(width - std::min(width, WidthOf(text)), ' ');
  return align == TextTable::Align::kLeft ? std::string(text) + padding
                                          : padding + std::string(text);
}

}  // namespace

std::string Thousands(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string ShortNumber(double value) {
  static constexpr std::string_view kUnits[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  // A value of at least 999.5 would be printed as 1000, so the next larger unit is used.
  while (std::abs(value) >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::string PercentText(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string TimeText(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const auto two = [](int64_t large, std::string_view large_unit, int64_t small,
                      std::string_view small_unit) {
    return small == 0 ? fmt::format("{} {}", large, large_unit)
                      : fmt::format("{} {} {} {}", large, large_unit, small, small_unit);
  };
  if (whole < 60) return fmt::format("{:.3g} s", seconds);
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86400, "d", whole % 86400 / 3600, "h");
}

int64_t Share(int64_t percent, int64_t whole) { return whole * percent / 100; }

double RatioOf(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string VisibleText(std::string_view text) {
  std::string valid;
  Utf8Repair repair;
  repair.Push(text, valid);
  repair.Flush(valid);
  std::string visible;
  for (size_t i = 0; i < valid.size();) {
    const size_t begin = i;
    const char32_t c = NextCodePoint(valid, i);
    if (c == '\n') {
      visible += "\\n";
    } else if (c == '\t') {
      visible += "\\t";
    } else if (c < 0x20 || (c >= 0x7F && c < 0xA0)) {
      visible += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else {
      visible += valid.substr(begin, i - begin);
    }
  }
  return visible;
}

void TextTable::Add(std::vector<std::string> cells) {
  INCIPIT_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::Text(size_t indent) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(WidthOf(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], WidthOf(row[c]));
  }
  const auto line = [&](const auto& cell_of) {
    std::string text(indent, ' ');
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text += "  ";
      text += Padded(cell_of(c), widths[c], columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line([&](size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) text += line([&](size_t c) { return row[c]; });
  return text;
}

}  // namespace incipit
