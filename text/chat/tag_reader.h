// Reads tool calls in which tags, instead of JSON, surround the name and the arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/text_matcher.h"

namespace incipit {

// The tags of a tool call, in their order in the text. A tag that the format does not have is
// empty. The tags from `parameter_begin` to `value_end` occur once for each argument.
struct CallTags {
  std::string_view function_begin, name_end;
  std::string_view parameter_begin, key_end;
  std::string_view value_begin, value_end;
  std::string_view function_end;
  // True if one line feed at the start and one at the end of a value are not part of the value.
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

// Parses `text` as tool calls. Returns nullopt if `text` has another form. Parameters in `strings`
// always become strings. The value of another parameter becomes a string only if the value is
// neither a JSON literal nor a Python literal. `strings` may be null.
std::optional<std::vector<ToolCall>> ReadTaggedCalls(std::string_view text, const CallTags& tags,
                                                     const StringParameters* strings);

// Reads the text of tool calls between an opening marker, such as <tool_call>, and the closing
// marker.
class TagReader final : public CallReader {
 public:
  // Creates a reader. `strings`, the set of parameters that are strings, may be null. REQUIRES:
  // `tags`, `strings` and the memory of `closing_marker` outlive the reader.
  TagReader(std::string_view closing_marker, const CallTags& tags, const StringParameters* strings)
      : tags_(&tags), strings_(strings), closing_marker_(closing_marker) {}

  State Read(char byte) override;
  void End() override;

 private:
  // Reads a byte of the tag `function_begin` or, in a format without this tag, of the function
  // name. Returns false if the text is not a tool call. Sets `has_begun_` at the end of the tag or
  // name.
  bool ReadBeginning(char byte);

  const CallTags* tags_;
  const StringParameters* strings_;
  TextMatcher closing_marker_;
  bool has_begun_ = false;
  // Number of bytes of the tag `function_begin` (or of the function name) that were read.
  size_t num_name_bytes_ = 0;
  // True if white space was read after the function name. Used only in a format without the tag
  // `function_begin`.
  bool is_name_ended_ = false;
  std::string text_;
};

}  // namespace incipit
