// Parses Python calls and Python literals in the output of a model, and converts their values to
// JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/tool_call.h"

namespace incipit {

// Parses `text`, a list of Python calls such as `[f(a=1, b="x"), g()]`, as tool calls. Each
// argument must have a name and a literal as value. Returns nullopt if `text` has another form.
std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text);

// Converts the Python literal `text` to JSON text. Returns nullopt if `text` is not a literal.
std::optional<std::string> JsonOfPythonLiteral(std::string_view text);

// Finds the end of a list of Python calls in a text that arrives byte by byte. The list must begin
// like `[name(` or `[module.name(`.
class PythonCallsExtent {
 public:
  using State = JsonExtent::State;

  // Reads the next byte. Returns kClosed if `byte` closes the list, or kInvalid if the text is not
  // a list of calls. REQUIRES: all earlier results of Read() were kOpen.
  State Read(char byte);

 private:
  int32_t depth_ = 0;
  bool has_name_ = false;  // true after the first byte of the first call's name
  bool has_call_ = false;  // true after the first call's opening parenthesis
  char quote_ = 0;         // quotation mark that ends the current string; 0 outside strings
  bool is_escaped_ = false;
};

}  // namespace incipit
