// Reads tool calls that end with a closing bracket: JSON values and lists of Python calls.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/python_calls.h"

namespace incipit {

// Reads tool calls in JSON: an object with the name and the arguments of one call, or a list of
// these objects.
class JsonCallReader final : public CallReader {
 public:
  // Creates a reader. If `closing_marker` is not empty, the marker must follow the JSON text,
  // except at the end of the output. If `separator` is not 0, this byte may precede the JSON text.
  // REQUIRES: the memory of `closing_marker` outlives the reader.
  explicit JsonCallReader(std::string_view closing_marker, char separator = 0)
      : closing_marker_(closing_marker), separator_(separator) {}

  State Read(char byte) override;
  void End() override;

 private:
  State ReadClosingMarker(char byte);
  // Reads a byte of the JSON text. Returns false if the first key of the JSON object cannot be a
  // key of a tool call.
  bool ReadFirstKey(char byte);

  std::string_view closing_marker_;
  char separator_;
  std::string json_;
  JsonExtent extent_;
  // The beginning of the JSON text, up to the end of the first key, such as `{"name"`. Contains no
  // white space.
  std::string beginning_;
  bool has_first_key_ = false;
  bool is_closed_ = false;  // true after the closing bracket of the JSON text
  size_t num_matched_ = 0;  // number of bytes of `closing_marker_` that were read
  // Tool calls in the JSON text; absent until the JSON text is complete.
  std::optional<std::vector<ToolCall>> parsed_;
};

// Reads the tool calls of Mistral models after the marker [TOOL_CALLS]. The text is a JSON list of
// objects, or one tool call: NAME[ARGS]{...}, NAME[CALL_ID]ID[ARGS]{...} or NAME{...}. The part
// {...} contains the arguments of the tool call.
class MistralCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  std::string head_;  // text between [TOOL_CALLS] and the JSON text
  std::string json_;
  JsonExtent extent_;
};

// Reads a list of Python calls, such as [f(a=1)]. The marker <|python_end|> may follow the list.
class PythonCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  // If `is_closed_` is false: the bytes of the list so far. If `is_closed_` is true: the bytes
  // after the list so far.
  std::string text_;
  PythonCallsExtent extent_;
  bool is_closed_ = false;  // true after the closing bracket of the list
};

}  // namespace incipit
