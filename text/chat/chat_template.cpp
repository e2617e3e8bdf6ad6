#include "text/chat/chat_template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/python_characters.h"
#include "text/jinja/runtime/python_json.h"
#include "text/jinja/syntax/parser.h"

namespace incipit {
namespace {

using jinja::Dict;
using jinja::Heap;
using jinja::Origin;
using jinja::Value;

constexpr size_t kRoleSizeMax = 64;

// A role that is one plain word: a template may build a special token around it ("<|" + role +
// "|>"), and by itself it cannot hold one.
bool IsPlainRole(std::string_view role) {
  return !role.empty() && role.size() <= kRoleSizeMax &&
         std::all_of(role.begin(), role.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

// Messages are the request's, but for their roles.
absl::StatusOr<Value> ReadMessages(Heap& heap, const nlohmann::ordered_json& json) {
  INCIPIT_ASSIGN_OR_RETURN(const Value messages, jinja::FromJson(heap, json, Origin::kRequest));
  if (!messages.is(jinja::Kind::kList)) return messages;
  INCIPIT_ASSIGN_OR_RETURN(const Value role_key, heap.MakeString("role"));
  std::vector<Value> items;
  for (const Value& message : messages.list().items) {
    items.push_back(message);
    if (!message.is(jinja::Kind::kDict)) continue;
    const Value* role = message.dict().Find(role_key);
    if (role == nullptr || !role->is_string() || !IsPlainRole(role->bytes())) continue;
    INCIPIT_ASSIGN_OR_RETURN(Dict * copy, heap.NewDict(message.dict().size()));
    copy->origin = Origin::kRequest;
    for (const Dict::Entry& entry : message.dict().entries()) {
      if (&entry.value != role) {
        copy->Set(entry.key, entry.value);
        continue;
      }
      INCIPIT_ASSIGN_OR_RETURN(Value plain, heap.MakeString(role->bytes()));
      copy->Set(entry.key, std::move(plain));
    }
    INCIPIT_ASSIGN_OR_RETURN(items.back(), heap.Finish(copy));
  }
  return heap.MakeSequence(jinja::Kind::kList, std::move(items), Origin::kRequest);
}

absl::StatusOr<jinja::Variables> ReadVariables(Heap& heap, const nlohmann::ordered_json& json) {
  if (!json.is_object()) {
    return InvalidArgument("the variables of a chat template must be an object");
  }
  jinja::Variables variables;
  for (const auto& [name, item] : json.get_ref<const nlohmann::ordered_json::object_t&>()) {
    INCIPIT_ASSIGN_OR_RETURN(variables[name], name == "messages"
                                                  ? ReadMessages(heap, item)
                                                  : jinja::FromJson(heap, item, Origin::kRequest));
  }
  return variables;
}

// They are the model's own, so that in the prompt they are tokens.
absl::Status AddSpecialTokens(Heap& heap, const TokenizerConfig& config,
                              jinja::Variables& variables) {
  for (const auto& [name, token] : config.special_tokens) {
    if (variables.contains(name)) continue;
    INCIPIT_ASSIGN_OR_RETURN(variables[name], heap.MakeString(token));
  }
  constexpr const char* kAdditional = "additional_special_tokens";
  if (config.additional_special_tokens.empty() || variables.contains(kAdditional)) {
    return absl::OkStatus();
  }
  std::vector<Value> tokens;
  for (const std::string& token : config.additional_special_tokens) {
    INCIPIT_ASSIGN_OR_RETURN(tokens.emplace_back(), heap.MakeString(token));
  }
  INCIPIT_ASSIGN_OR_RETURN(variables[kAdditional], heap.MakeList(std::move(tokens)));
  return absl::OkStatus();
}

}  // namespace

class ChatTemplate::Program {
 public:
  std::optional<jinja::Program> code, tool_code;  // one of them is there
  TokenizerConfig config;
  ChatTemplateLimits limits;
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
  return ChatTemplate(std::move(program));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(const TokenizerConfig& config) {
  if (!config.has_chat_template()) return FailedPrecondition("there is no chat template");
  auto program = std::make_unique<Program>();
  program->config = config;
  if (config.chat_template) {
    INCIPIT_ASSIGN_OR_RETURN(program->code,
                             jinja::ParseTemplate(*config.chat_template, program->limits));
  }
  if (config.tool_chat_template) {
    INCIPIT_ASSIGN_OR_RETURN(program->tool_code,
                             jinja::ParseTemplate(*config.tool_chat_template, program->limits));
  }
  return ChatTemplate(std::move(program));
}

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(const nlohmann::ordered_json& variables) const {
  return Render(variables, std::chrono::system_clock::now());
}

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(
    const nlohmann::ordered_json& variables, std::chrono::system_clock::time_point now) const {
  Heap heap(program_->limits);
  INCIPIT_ASSIGN_OR_RETURN(jinja::Variables values, ReadVariables(heap, variables));
  INCIPIT_RETURN_IF_ERROR(AddSpecialTokens(heap, program_->config, values));
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && !tools->is_null();
  const auto& code = has_tools && program_->tool_code ? program_->tool_code : program_->code;
  if (!code) {
    return FailedPrecondition(
        "the model's chat template is for conversations with tools, and there are none");
  }
  jinja::Interpreter interpreter(heap, values, now);
  INCIPIT_ASSIGN_OR_RETURN(const Value text, interpreter.Render(*code));
  if (jinja::HasSurrogates(text.bytes())) {
    return InvalidArgument("the chat template wrote a lone surrogate, which is no text");
  }
  return RenderedPrompt{.text = std::string(text.bytes()), .literal_ranges = text.text().literal};
}

}  // namespace incipit
