// Reads tool calls that end with the closing bracket of a JSON value or of a list of Python calls.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/python_calls.h"

namespace incipit {

// Reads a JSON object with the name and the arguments of a call, or a list of such objects.
class JsonCallReader final : public CallReader {
 public:
  // If `closing_marker` is not empty, the marker must follow the JSON text, except at the end of
  // the output. If `separator` is not 0, the byte `separator` may precede the JSON text. REQUIRES:
  // the memory of `closing_marker` outlives the reader.
  explicit JsonCallReader(std::string_view closing_marker, char separator = 0)
      : closing_marker_(closing_marker), separator_(separator) {}

  State Read(char byte) override;
  // Accepts a call without the closing marker.
  void End() override;

 private:
  State ReadClosingMarker(char byte);
  // Reads a byte of the JSON text. Returns false if the first key of the text is not a key of a
  // call. JSON text that is not a call, such as a reply in JSON, is therefore not held back.
  bool ReadFirstKey(char byte);

  std::string_view closing_marker_;
  char separator_;
  std::string json_;
  JsonExtent extent_;
  std::string beginning_;       // JSON text without white space, up to the first key
  bool has_first_key_ = false;  // true after the first key of the JSON text
  bool is_closed_ = false;      // true after the last bracket of the JSON text
  size_t num_matched_ = 0;      // number of bytes of the closing marker that were read
  std::optional<std::vector<ToolCall>> parsed_;  // calls before the closing marker
};

// Reads the calls of Mistral models after the marker [TOOL_CALLS]. The calls are a JSON list of
// objects, or one call in the form NAME[ARGS]ARGUMENTS, NAME[CALL_ID]ID[ARGS]ARGUMENTS or
// NAME{...}, where {...} are the arguments.
class MistralCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  std::string head_;  // text before the JSON text
  std::string json_;
  JsonExtent extent_;
};

// Reads a list of Python calls, and the marker <|python_end|> if the marker follows the list.
class PythonCallReader final : public CallReader {
 public:
  State Read(char byte) override;

 private:
  std::string text_;  // text of the list, or text after the list
  PythonCallsExtent extent_;
  bool is_closed_ = false;  // true after the closing bracket of the list
};

}  // namespace incipit
