// Converts a conversation to the prompt of a model, with the chat template of the model.
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
  // Ranges of `text` that contain text of the request (messages, tools and arguments), not of the
  // template. The tokenizer must encode special tokens inside the ranges as ordinary text. The
  // ranges are in ascending order and do not overlap.
  std::vector<ByteRange> literal_ranges;
};

// A parsed chat template in the subset of Jinja that published chat templates use. Rendering a
// template has no side effects and no I/O. Immutable; Render() is thread-safe.
class ChatTemplate {
 public:
  // Parses one template. Returns UNIMPLEMENTED for an unsupported construct and INVALID_ARGUMENT
  // for a syntax error. The message names the line and the construct.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source,
                                            ChatTemplateLimits limits = {});

  // Parses the templates of a model folder. Makes the special tokens of the folder available to the
  // templates by name. If there are two templates, Render() chooses like apply_chat_template of the
  // library transformers. `tool_use` renders conversations with a variable `tools` that is not
  // null; `default` renders all others. Returns FAILED_PRECONDITION if there is no template.
  static absl::StatusOr<ChatTemplate> Parse(const TokenizerConfig& config);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders the prompt. `variables` is an object with messages, tools, documents,
  // add_generation_prompt and other arguments of the template. A variable with the name of a
  // special token replaces the special token.
  //
  // Returns INVALID_ARGUMENT with the message of the template if the template raises an error.
  // Returns FAILED_PRECONDITION if the only template is for tools and the request has no tools.
  // Returns UNIMPLEMENTED, with line and construct, for an unsupported construct that is detected
  // only now.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables) const;
  // Renders the prompt as if the current time were `now`. strftime_now() formats `now` in the time
  // zone of the process.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables,
                                        std::chrono::system_clock::time_point now) const;

 private:
  class Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace incipit
