// Reads Python call expressions and Python literals that a model wrote, and converts their values
// to JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/tool_call.h"

namespace incipit {

// Returns the tool calls in `text`: a list of calls such as `[f(a=1, b="x"), g()]`. Each argument
// must have a name, and its value must be a literal: a string, number, list, tuple, dictionary with
// strings as keys, True, False or None. Returns nullopt for any other text.
std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text);

// Returns the JSON text of the Python literal `text`. Returns nullopt if `text` is not a literal.
std::optional<std::string> JsonOfPythonLiteral(std::string_view text);

// Finds the end of a list of Python calls, byte by byte. The list must begin like `[name(` or
// `[module.name(`. Most other text in brackets is therefore invalid after a few bytes.
class PythonCallsExtent {
 public:
  using State = JsonExtent::State;

  // Reads the next byte. Returns kClosed if `byte` closes the first bracket. Returns kInvalid if
  // the text cannot be a list of calls. REQUIRES: the earlier calls returned kOpen.
  State Read(char byte);

 private:
  int32_t depth_ = 0;
  bool has_name_ = false;  // true after the first byte of the name of the first call
  bool has_call_ = false;  // true after the opening parenthesis of the first call
  char quote_ = 0;         // quote that ends the current string, or 0 outside strings
  bool is_escaped_ = false;
};

}  // namespace incipit
