// A tool call in the output of a model, and functions that parse tool calls in JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

// Maximum length of a tool call in bytes, including its markers. A longer tool call is treated as
// ordinary text.
inline constexpr size_t kToolCallBytesMax = size_t{1} << 20;
// Maximum depth of nested arrays and objects in the text of a tool call.
inline constexpr int32_t kToolCallDepthMax = 64;
// Maximum length in bytes of the name of a tool.
inline constexpr size_t kToolNameBytesMax = 256;

struct ToolCall {
  std::string name;
  // The arguments: the JSON text of an object, without white space outside strings.
  std::string arguments_json;

  bool operator==(const ToolCall&) const = default;
};

// Returns true if `c` is a white space character of JSON.
constexpr bool IsOutputSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Returns `text` without the white space at the beginning and at the end.
std::string_view TrimSpace(std::string_view text);

// Returns true if `c` may occur in the name of a tool: not white space, a bracket, a quotation mark
// or a comma.
bool IsToolNameByte(char c);

// Creates a tool call. Returns nullopt if `name` is not a valid name of a tool, or if `arguments`
// is not a JSON object. Also returns nullopt if `name` has more than kToolNameBytesMax bytes, or if
// `arguments` has more than kToolCallBytesMax bytes or is nested deeper than kToolCallDepthMax.
std::optional<ToolCall> MakeToolCall(std::string_view name, std::string_view arguments);

// Parses `text` as tool calls: a JSON object with the keys "name" and "arguments" (or
// "parameters"), or a list of such objects. Keeps the order of keys and the digits of numbers.
// Returns nullopt for an empty list and for any other text.
std::optional<std::vector<ToolCall>> ReadJsonCalls(std::string_view text);

// Returns `text` as a JSON string with quotation marks. Returns nullopt if `text` is not valid
// UTF-8.
std::optional<std::string> JsonStringOf(std::string_view text);

// Removes the white space outside strings from the JSON text `text`. Returns nullopt if `text` is
// not valid JSON, has more than kToolCallBytesMax bytes, or is nested deeper than
// kToolCallDepthMax.
std::optional<std::string> CompactJson(std::string_view text);

// Finds the end of a JSON array or object in a text that arrives byte by byte. Does not check the
// syntax between the brackets.
class JsonExtent {
 public:
  enum class State : uint8_t { kOpen, kClosed, kInvalid };

  // Reads the next byte. Returns kClosed if `byte` closes the array or object, or kInvalid if the
  // text is not JSON or is nested too deeply. REQUIRES: the first byte is '[' or '{', and all
  // earlier results of Read() were kOpen.
  State Read(char byte);

 private:
  int32_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

}  // namespace incipit
