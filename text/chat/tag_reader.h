// Reads tool calls whose names and arguments are in tags, without JSON around the arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/text_matcher.h"

namespace incipit {

// The tags of a call, in the order in which the tags occur in the text. The tags from
// `parameter_begin` to `value_end` occur once for each argument. An empty tag does not occur.
struct CallTags {
  std::string_view function_begin, name_end;
  std::string_view parameter_begin, key_end;
  std::string_view value_begin, value_end;
  std::string_view function_end;
  // If true, a line feed at the beginning and a line feed at the end are not part of a value.
  bool has_line_feeds = false;
};
inline constexpr CallTags kQwenTags = {.function_begin = "<function=",
                                       .name_end = ">",
                                       .parameter_begin = "<parameter=",
                                       .key_end = ">",
                                       .value_begin = "",
                                       .value_end = "</parameter>",
                                       .function_end = "</function>",
                                       .has_line_feeds = true};
inline constexpr CallTags kMiniMaxTags = {.function_begin = "<invoke name=\"",
                                          .name_end = "\">",
                                          .parameter_begin = "<parameter name=\"",
                                          .key_end = "\">",
                                          .value_begin = "",
                                          .value_end = "</parameter>",
                                          .function_end = "</invoke>",
                                          .has_line_feeds = false};
inline constexpr CallTags kGlmTags = {.function_begin = "",
                                      .name_end = "",
                                      .parameter_begin = "<arg_key>",
                                      .key_end = "</arg_key>",
                                      .value_begin = "<arg_value>",
                                      .value_end = "</arg_value>",
                                      .function_end = "",
                                      .has_line_feeds = false};

// Returns the calls in `text`. A value is a string if `strings` contains the parameter. Otherwise,
// a value that is a JSON or Python literal without quotes has the type of the literal, and any
// other value is a string. `strings` may be null. Returns nullopt if `text` has another form.
std::optional<std::vector<ToolCall>> ReadTaggedCalls(std::string_view text, const CallTags& tags,
                                                     const StringParameters* strings);

// Reads the text between the marker with which calls begin, such as <tool_call>, and the closing
// marker.
class TagReader final : public CallReader {
 public:
  // REQUIRES: the memory of `closing_marker` and of `tags`, and `strings`, outlive the reader.
  TagReader(std::string_view closing_marker, const CallTags& tags, const StringParameters* strings)
      : tags_(&tags), strings_(strings), closing_marker_(closing_marker) {}

  State Read(char byte) override;
  // Accepts a call without the closing marker.
  void End() override;

 private:
  // Reads a byte of CallTags::function_begin, or of the name of a call without this tag. Returns
  // false if the text does not begin like a call. Sets `has_begun_` after the last of these bytes.
  bool ReadBeginning(char byte);

  const CallTags* tags_;
  const StringParameters* strings_;
  TextMatcher closing_marker_;
  bool has_begun_ = false;
  size_t num_name_bytes_ = 0;   // bytes of function_begin, or of the name, that were read
  bool is_name_ended_ = false;  // true after white space after the name of a call without tags
  std::string text_;
};

}  // namespace incipit
