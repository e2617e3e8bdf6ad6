// A tool call that a model wrote into its output, and functions that build tool calls from JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

// Maximum length in bytes of the text of one tool call, with its markers. A longer text becomes
// content.
inline constexpr size_t kToolCallBytesMax = size_t{1} << 20;
// Maximum depth of nested arrays and objects in the text of a tool call.
inline constexpr int32_t kToolCallDepthMax = 64;
// Maximum length in bytes of the name of a tool.
inline constexpr size_t kToolNameBytesMax = 256;

struct ToolCall {
  std::string name;
  std::string arguments_json;  // text of a JSON object, without white space between elements

  bool operator==(const ToolCall&) const = default;
};

// Returns true if `c` is a white space character of JSON.
constexpr bool IsOutputSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Returns `text` without the white space at the beginning and at the end.
std::string_view TrimSpace(std::string_view text);

// Returns true if `c` may occur in the name of a tool. White space, brackets, quotes and commas
// may not occur.
bool IsToolNameByte(char c);

// Returns the tool call with the name `name` and the arguments `arguments`. Returns nullopt if
// `name` is not a valid name of a tool, or if `arguments` is not a valid JSON object within the
// limits.
std::optional<ToolCall> MakeToolCall(std::string_view name, std::string_view arguments);

// Returns the tool calls in the JSON text `text`: an object with the keys "name" and "arguments"
// (or "parameters"), or a list of such objects. The arguments keep the order of the keys and the
// digits of the numbers. Returns nullopt for any other text and for an empty list.
std::optional<std::vector<ToolCall>> ReadJsonCalls(std::string_view text);

// Returns the JSON string with the characters `text`. Returns nullopt if `text` is not UTF-8.
std::optional<std::string> JsonStringOf(std::string_view text);

// Returns the JSON text `text` without white space between its elements. Returns nullopt if `text`
// is not valid JSON within the limits.
std::optional<std::string> CompactJson(std::string_view text);

// Finds the end of a JSON array or object, byte by byte, without checking the syntax between the
// brackets.
class JsonExtent {
 public:
  enum class State : uint8_t { kOpen, kClosed, kInvalid };

  // Reads the next byte. The first byte must be '[' or '{'. Returns kClosed if `byte` closes the
  // first bracket. Returns kInvalid if the text cannot be JSON within kToolCallDepthMax. REQUIRES:
  // the earlier calls returned kOpen.
  State Read(char byte);

 private:
  int32_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

}  // namespace incipit
