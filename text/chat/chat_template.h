// Converts a conversation (a list of messages) to the prompt text of a model, with the chat
// template of the model.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/chat/tool_format.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

struct RenderedPrompt {
  std::string text;
  // Byte ranges of `text` that come from the request (messages, tools and arguments), not from the
  // template. The tokenizer must not recognise special tokens inside the ranges. The ranges are in
  // ascending order and do not overlap.
  std::vector<ByteRange> literal_ranges;
};

// A parsed chat template. The template language is the subset of Jinja that published chat
// templates use. Rendering has no side effects and no I/O. Immutable; Render() is thread-safe.
class ChatTemplate {
 public:
  // Parses the template `source`. Returns UNIMPLEMENTED for an unsupported construct of the
  // template language, and INVALID_ARGUMENT for a syntax error. The error message names the line
  // and the construct.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source,
                                            ChatTemplateLimits limits = {});

  // Parses the chat templates of a model folder. If the folder has two templates, Render() uses the
  // template `tool_use` for requests with tools (the variable `tools` is set and not null), and the
  // template `default` for other requests. Returns FAILED_PRECONDITION if there is no template.
  static absl::StatusOr<ChatTemplate> Parse(const TokenizerConfig& config);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Returns the formats of tool calls and reasoning that the templates define.
  OutputFormats formats() const;

  // Renders the prompt. `variables` is a JSON object with the variables of the template, such as
  // messages and tools.
  //
  // Returns INVALID_ARGUMENT with the message of the template if the template raises an error.
  // Returns FAILED_PRECONDITION if the only template is for tools and the request has no tools.
  // Returns UNIMPLEMENTED for an unsupported construct that Parse() could not detect.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables) const;
  // Renders the prompt. The template function strftime_now() formats the time `now`, in the time
  // zone of the process.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables,
                                        std::chrono::system_clock::time_point now) const;

 private:
  class Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace incipit
