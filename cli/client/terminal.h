// Prints colours and progress lines on terminals only, never into files and pipes.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace incipit {

bool IsTerminal(std::FILE* stream);

// Adds colours to text for one stream. The text stays plain unless the stream is a terminal,
// NO_COLOR is unset or empty, and TERM is not "dumb".
class Painter {
 public:
  explicit Painter(std::FILE* stream);

  std::string Dim(std::string_view text) const { return Paint("2", text); }
  std::string Bold(std::string_view text) const { return Paint("1", text); }
  std::string Red(std::string_view text) const { return Paint("31", text); }
  std::string Cyan(std::string_view text) const { return Paint("36", text); }

 private:
  std::string Paint(std::string_view code, std::string_view text) const;
  bool is_on_;
};

// Writes `text` to `stream` and flushes. Ignores errors, such as a closed pipe.
void Print(std::FILE* stream, std::string_view text);

}  // namespace incipit
