// Converts a conversation (list of messages) to the prompt text of a model, with the chat template
// of the model.
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
  // Byte ranges of `text` that come from the request instead of the template, in ascending order.
  // In these ranges, the tokenizer must treat special tokens as ordinary text.
  std::vector<ByteRange> literal_ranges;
};

// A parsed chat template in a subset of the language Jinja. Rendering has no side effects.
// Immutable and thread-safe.
class ChatTemplate {
 public:
  // Parses the template `source`. Returns INVALID_ARGUMENT for a syntax error, and UNIMPLEMENTED
  // for an unsupported construct of Jinja. The error message names the line and the construct.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source,
                                            ChatTemplateLimits limits = {});

  // Parses the chat templates of a model folder. If the folder has two templates, Render() uses the
  // template `tool_use` for requests with tools, and `default` for other requests. Returns
  // FAILED_PRECONDITION if the folder has no chat template.
  static absl::StatusOr<ChatTemplate> Parse(const TokenizerConfig& config);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Returns the formats of tool calls and reasoning, detected from the source text of the
  // templates.
  OutputFormats formats() const;

  // Renders the prompt. `variables` is a JSON object with the variables of the template, such as
  // messages and tools.
  //
  // Returns INVALID_ARGUMENT if the template raises an error. Returns FAILED_PRECONDITION if the
  // model has only a template for tools, but the request has no tools. Returns UNIMPLEMENTED if the
  // template executes an unsupported construct.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables) const;
  // Renders the prompt. The template function strftime_now() returns `now` as the current time.
  absl::StatusOr<RenderedPrompt> Render(const nlohmann::ordered_json& variables,
                                        std::chrono::system_clock::time_point now) const;

 private:
  class Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace incipit
