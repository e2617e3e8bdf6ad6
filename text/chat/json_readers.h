// Reads tool calls that are JSON values or lists of Python calls, and so end with a closing
// bracket.
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
  // If `closing_marker` is not empty, this text must follow the JSON text. At the end of the
  // output, `closing_marker` may be missing. If `separator` is not 0, the byte `separator` may
  // precede the JSON text. REQUIRES: the memory of `closing_marker` outlives the reader.
  explicit JsonCallReader(std::string_view closing_marker, char separator = 0)
      : closing_marker_(closing_marker), separator_(separator) {}

  State Read(char byte) override;
  // Called at the end of the output. Accepts a tool call without its closing marker.
  void End() override;

 private:
  State ReadClosingMarker(char byte);
  // Reads a byte of the JSON text. Returns false as soon as the first key shows that the JSON
  // object is not a tool call.
  bool ReadFirstKey(char byte);

  std::string_view closing_marker_;
  char separator_;
  std::string json_;
  JsonExtent extent_;
  std::string beginning_;       // JSON text up to its first key, without white space
  bool has_first_key_ = false;  // true after the first key was read
  bool is_closed_ = false;      // true after the bracket that ends the JSON text
  size_t num_matched_ = 0;      // number of bytes of `closing_marker_` that were read
  // Tool calls in the JSON text; absent until the text is complete.
  std::optional<std::vector<ToolCall>> parsed_;
};

// Reads the tool calls of Mistral models after the marker [TOOL_CALLS]: a JSON list of objects, or
// one call of the form NAME[ARGS]{...}, NAME[CALL_ID]ID[ARGS]{...} or NAME{...}, where {...} are
// the arguments.
class MistralCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  std::string head_;  // text between [TOOL_CALLS] and the JSON text
  std::string json_;
  JsonExtent extent_;
};

// Reads a list of Python calls, such as [f(a=1)], and the marker <|python_end|> if the marker
// follows.
class PythonCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  std::string text_;  // text of the list, or text after the list
  PythonCallsExtent extent_;
  bool is_closed_ = false;  // true after the closing bracket of the list
};

}  // namespace incipit
