// Reads lines of any length from a stream.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace incipit {

// Reads lines from a stream. The returned lines do not contain the newline character.
class LineReader {
 public:
  explicit LineReader(std::FILE* in) : in_(in) {}
  ~LineReader() { std::free(line_); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Returns the next line, or nullopt at the end of the stream or if reading fails. If reading
  // failed, ferror() returns true. The returned line is valid until the next call of Next().
  std::optional<std::string_view> Next() {
    const ssize_t size = getline(&line_, &capacity_, in_);
    if (size < 0) return std::nullopt;
    std::string_view line(line_, static_cast<size_t>(size));
    if (line.ends_with('\n')) line.remove_suffix(1);
    return line;
  }

 private:
  std::FILE* in_;
  char* line_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace incipit
