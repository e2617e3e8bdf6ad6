// Formats numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

// Returns `value` with digits in groups of three, such as "1,234,567".
std::string Thousands(int64_t value);
// Returns `value` with at most three digits, in thousands (k), millions (M) and so on: 950 becomes
// "950", and 1234 becomes "1.23 k".
std::string ShortNumber(double value);
std::string PercentText(double ratio);  // Returns `ratio` in percent, such as "12.3 %" for 0.1234
// Returns a time with its unit, such as "250 ms" or "1 min 30 s".
std::string TimeText(double seconds);
int64_t Share(int64_t percent, int64_t whole);  // Returns `percent` % of `whole`, rounded down

// Returns `part` / `whole`, or 0 if `whole` is 0.
double RatioOf(int64_t part, int64_t whole);

// Returns `text` in a form that is safe for a terminal: control characters become \n, \t or \xHH,
// and bytes that are not UTF-8 become U+FFFD.
std::string VisibleText(std::string_view text);

// A text table. Each column has a heading. Two spaces separate the columns.
class TextTable {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Appends a row. REQUIRES: `cells` has one cell for each column.
  void Add(std::vector<std::string> cells);
  // Returns the lines of the table. Each line begins with `indent` spaces and ends with a newline.
  std::string Text(size_t indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace incipit
