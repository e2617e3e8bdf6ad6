#include "cli/client/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace incipit {
namespace {

std::string_view Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

bool IsTerminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

Painter::Painter(std::FILE* stream)
    : is_on_(IsTerminal(stream) && Environment("NO_COLOR").empty() &&
             Environment("TERM") != "dumb") {}

std::string Painter::Paint(std::string_view code, std::string_view text) const {
  return is_on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

void Print(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace incipit
