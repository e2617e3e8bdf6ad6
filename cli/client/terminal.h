// Writes text to standard output and standard error, with colours only if the stream is a terminal.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace incipit {

bool IsTerminal(std::FILE* stream);

// Adds colours to text that is written to one output stream. Adds no colours if the stream is no
// terminal, if NO_COLOR is set and not empty, or if TERM is "dumb".
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

// Writes `text` to `stream` and flushes the stream. Ignores write errors, for example of a closed
// pipe.
void Print(std::FILE* stream, std::string_view text);

}  // namespace incipit
