// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

std::string Thousands(int64_t value);           // 1234567: "1,234,567"
std::string ShortNumber(double value);          // "0", "950", "1.23 k", "12.3 M"; three digits
std::string PercentText(double ratio);          // 0.1234: "12.3 %"
std::string TimeText(double seconds);           // "250 ms", "59 s", "1 min 30 s", "2 h", "3 d 4 h"
int64_t Share(int64_t percent, int64_t whole);  // rounded down

// Part of `whole`; 0 of nothing.
double RatioOf(int64_t part, int64_t whole);

// What a terminal shows as it is: control characters become \n, \t or \xHH, bytes that are no
// UTF-8 become U+FFFD.
std::string VisibleText(std::string_view text);

// Columns with a heading, two spaces apart.
class TextTable {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: a cell for each column.
  void Add(std::vector<std::string> cells);
  // Each line with its end and `indent` spaces in front.
  std::string Text(size_t indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace incipit
