// A conversation to the prompt that the model was trained on, by the model's own chat template.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

struct RenderedPrompt {
  std::string text;
  // What came out of the request's messages, tools and arguments and not out of the template's own
  // text, so that special tokens in it stay ordinary text. Ascending, not overlapping.
  std::vector<ByteRange> literal_ranges;
};

// A parsed template of the Jinja that real chat templates use: sandboxed, with no I/O. Immutable;
// Render is thread-safe.
class ChatTemplate {
 public:
  // UNIMPLEMENTED for a construct that is not supported, INVALID_ARGUMENT for a syntax error; both
  // name the line and the construct.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source,
                                            ChatTemplateLimits limits = {});

  // A folder's templates, which know the folder's special tokens by their names. Of several,
  // `tool_use` renders the conversations with tools (`tools` there and not null) and `default` the
  // others, as transformers' apply_chat_template chooses. FAILED_PRECONDITION if there is none.
  static absl::StatusOr<ChatTemplate> Parse(const TokenizerConfig& config);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables` is an object: messages, tools, documents, add_generation_prompt and the template's
  // own arguments, of which one with the name of a special token hides that. INVALID_ARGUMENT with
  // the template's message if it raises; FAILED_PRECONDITION where the only template is for tools
  // and there are none; UNIMPLEMENTED, naming line and construct, where it meets what only then
  // turns out not to be supported.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables) const;
  // The same at a given time, which strftime_now() shows in the process's time zone.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables,
                                        std::chrono::system_clock::time_point now) const;

 private:
  class Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace incipit
