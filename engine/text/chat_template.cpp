#include "engine/text/chat_template.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "engine/text/jinja/heap.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json.h"
#include "engine/text/jinja/parser.h"
#include "engine/text/jinja/unicode.h"

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
  return heap.MakeList(std::move(items), Origin::kRequest);
}

absl::StatusOr<jinja::Variables> ReadVariables(Heap& heap, const nlohmann::ordered_json& json) {
  if (!json.is_object()) {
    return InvalidArgument("the variables of a chat template must be an object");
  }
  jinja::Variables variables;
  for (const auto& [name, item] : json.get_ref<const nlohmann::ordered_json::object_t&>()) {
    const bool is_trusted = name == "bos_token" || name == "eos_token";
    INCIPIT_ASSIGN_OR_RETURN(
        variables[name],
        name == "messages"
            ? ReadMessages(heap, item)
            : jinja::FromJson(heap, item, is_trusted ? Origin::kTemplate : Origin::kRequest));
  }
  return variables;
}

}  // namespace

class ChatTemplate::Program {
 public:
  jinja::Program code;
  std::optional<jinja::Program> tool_code;
  ChatTemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source,
                                                 ChatTemplateLimits limits) {
  INCIPIT_ASSIGN_OR_RETURN(jinja::Program code, jinja::ParseTemplate(source, limits));
  auto program = std::make_unique<Program>();
  program->code = std::move(code);
  program->limits = limits;
  return ChatTemplate(std::move(program));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(const TokenizerConfig& config) {
  if (!config.chat_template) {
    return FailedPrecondition("there is no chat template{}",
                              config.tool_chat_template ? " but the one for tools" : "");
  }
  INCIPIT_ASSIGN_OR_RETURN(ChatTemplate parsed, Parse(*config.chat_template));
  if (config.tool_chat_template) {
    INCIPIT_ASSIGN_OR_RETURN(
        parsed.program_->tool_code,
        jinja::ParseTemplate(*config.tool_chat_template, parsed.program_->limits));
  }
  return parsed;
}

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(const nlohmann::ordered_json& variables) const {
  return Render(variables, std::chrono::system_clock::now());
}

absl::StatusOr<RenderedPrompt> ChatTemplate::Render(
    const nlohmann::ordered_json& variables, std::chrono::system_clock::time_point now) const {
  Heap heap(program_->limits);
  INCIPIT_ASSIGN_OR_RETURN(const jinja::Variables values, ReadVariables(heap, variables));
  jinja::Interpreter interpreter(heap, values, now);
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && !tools->is_null();
  const jinja::Program& code =
      has_tools && program_->tool_code ? *program_->tool_code : program_->code;
  INCIPIT_ASSIGN_OR_RETURN(const Value text, interpreter.Render(code));
  if (jinja::HasSurrogates(text.bytes())) {
    return InvalidArgument("the chat template wrote a lone surrogate, which is no text");
  }
  return RenderedPrompt{.text = std::string(text.bytes()), .literal_ranges = text.text().literal};
}

}  // namespace incipit
