// Parses the Python calls and Python literals that a model writes, and converts their values to
// JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/tool_call.h"

namespace incipit {

// Returns the tool calls in `text`, a list of Python calls such as `[f(a=1, b="x"), g()]`. Each
// argument must have a name and a literal as value. Returns nullopt for any other text.
std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text);

// Returns the value of the Python literal `text` as JSON text. Returns nullopt if `text` is not a
// literal.
std::optional<std::string> JsonOfPythonLiteral(std::string_view text);

// Finds the end of a list of Python calls in a text that arrives byte by byte. The list must begin
// like `[name(` or `[module.name(`.
class PythonCallsExtent {
 public:
  using State = JsonExtent::State;

  // Reads the next byte. Returns kClosed if `byte` closes the first bracket, or kInvalid if the
  // text is not a list of calls. REQUIRES: each previous call of Read returned kOpen.
  State Read(char byte);

 private:
  int32_t depth_ = 0;
  bool has_name_ = false;  // true after the first byte of the first call's name
  bool has_call_ = false;  // true after the first call's opening parenthesis
  char quote_ = 0;         // quotation mark that ends the current string; 0 outside strings
  bool is_escaped_ = false;
};

}  // namespace incipit
