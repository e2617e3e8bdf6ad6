#include "text/chat/chat_template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/python_json.h"
#include "text/jinja/syntax/parser.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

using jinja::Heap;
using jinja::Value;

// Maximum length in bytes of the role of a message, such as "user".
constexpr size_t kRoleSizeMax = 64;

// Returns true if `role` has 1 to kRoleSizeMax characters, all of them ASCII letters, digits, '_'
// or '-'.
bool IsPlainRole(std::string_view role) {
  return !role.empty() && role.size() <= kRoleSizeMax &&
         std::all_of(role.begin(), role.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

// Converts the members of the JSON object `json` to the variables of the template `code`. Ignores
// variables that the template does not use. Returns an error if any value in `json` is invalid.
absl::StatusOr<jinja::Variables> ReadVariables(Heap& heap, const nlohmann::ordered_json& json,
                                               const jinja::Program& code) {
  jinja::Variables variables(code.context.size());
  jinja::JsonReader reader(heap);
  for (const auto& [name, item] : json.get_ref<const nlohmann::ordered_json::object_t&>()) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, name == "messages"
                                              ? reader.ReadMessages(item, IsPlainRole)
                                              : reader.Read(item));
    const auto found = code.context.find(name);
    if (found != code.context.end()) variables[found->second] = std::move(value);
  }
  return variables;
}

// Adds the special tokens of the model, such as bos_token, to the variables of the template `code`.
absl::Status AddSpecialTokens(Heap& heap, const TokenizerConfig& config, const jinja::Program& code,
                              jinja::Variables& variables) {
  // Returns a pointer to the variable `name`. Returns null if the template does not use the
  // variable, or if the request has set the variable.
  const auto free_variable = [&](std::string_view name) -> Value* {
    const auto found = code.context.find(name);
    if (found == code.context.end()) return nullptr;
    Value& variable = variables[found->second];
    return variable.is(jinja::Kind::kMissing) ? &variable : nullptr;
  };
  for (const auto& [name, token] : config.special_tokens) {
    Value* const variable = free_variable(name);
    if (variable == nullptr) continue;
    INCIPIT_ASSIGN_OR_RETURN(*variable, heap.MakeString(token));
  }
  Value* const additional = free_variable("additional_special_tokens");
  if (config.additional_special_tokens.empty() || additional == nullptr) return absl::OkStatus();
  std::vector<Value> tokens;
  for (const std::string& token : config.additional_special_tokens) {
    INCIPIT_ASSIGN_OR_RETURN(tokens.emplace_back(), heap.MakeString(token));
  }
  INCIPIT_ASSIGN_OR_RETURN(*additional, heap.MakeList(std::move(tokens)));
  return absl::OkStatus();
}

}  // namespace

class ChatTemplate::Program {
 public:
  // The parsed chat templates. If `tool_code` is set, requests with tools use `tool_code`. All
  // other requests use `code`.
  std::optional<jinja::Program> code, tool_code;
  TokenizerConfig config;
  ChatTemplateLimits limits;
  OutputFormats formats;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source,
                                                 ChatTemplateLimits limits) {
  auto program = std::make_unique<Program>();
  program->limits = limits;
  INCIPIT_ASSIGN_OR_RETURN(program->code, jinja::ParseTemplate(source, limits));
  program->formats = DetectOutputFormats(source);
  return ChatTemplate(std::move(program));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(const TokenizerConfig& config) {
  if (!config.has_chat_template()) return FailedPrecondition("the model has no chat template");
  auto program = std::make_unique<Program>();
  program->config = config;
  if (config.chat_template) {
    INCIPIT_ASSIGN_OR_RETURN(program->code,
                             jinja::ParseTemplate(*config.chat_template, program->limits));
    program->formats = DetectOutputFormats(*config.chat_template);
  }
  if (config.tool_chat_template) {
    INCIPIT_ASSIGN_OR_RETURN(program->tool_code,
                             jinja::ParseTemplate(*config.tool_chat_template, program->limits));
    program->formats.tools = DetectOutputFormats(*config.tool_chat_template).tools;
  }
  return ChatTemplate(std::move(program));
}

OutputFormats ChatTemplate::formats() const { return program_->formats; }

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(const nlohmann::ordered_json& variables) const {
  return Render(variables, std::chrono::system_clock::now());
}

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(
    const nlohmann::ordered_json& variables, std::chrono::system_clock::time_point now) const {
  if (!variables.is_object()) {
    return InvalidArgument("the variables of a chat template must be an object");
  }
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && !tools->is_null();
  const auto& code = has_tools && program_->tool_code ? program_->tool_code : program_->code;
  if (!code) {
    return FailedPrecondition(
        "the only chat template of the model needs tools, but the request has no tools");
  }
  Heap heap(program_->limits);
  INCIPIT_ASSIGN_OR_RETURN(jinja::Variables values, ReadVariables(heap, variables, *code));
  INCIPIT_RETURN_IF_ERROR(AddSpecialTokens(heap, program_->config, *code, values));
  jinja::Interpreter interpreter(heap, now);
  INCIPIT_ASSIGN_OR_RETURN(const Value text, interpreter.Render(*code, std::move(values)));
  if (!IsUtf8(text.bytes())) {
    return InvalidArgument(
        "the output of the chat template has a lone surrogate, which is not a character");
  }
  return RenderedPrompt{.text = std::string(text.bytes()),
                        .literal_ranges = text.text().LiteralRanges()};
}

}  // namespace incipit
