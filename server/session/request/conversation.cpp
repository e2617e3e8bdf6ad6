#include "server/session/request/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "server/session/request/bounded_json.h"
#include "server/session/request/field_checks.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRoleBytesMax = 64;
// Maximum size in bytes of the name of a tool, the name of an author, and the id of a tool call.
constexpr size_t kNameBytesMax = 256;
// Number of JSON values that each tool call counts against RequestLimits::json_values_max: id,
// type, function, name and arguments.
constexpr int64_t kValuesPerToolCall = 5;
// Names of template variables that a client may not set with template_arguments_json. The server
// sets these variables itself, except `chat_template`, which contains code.
constexpr std::array<std::string_view, 13> kReservedArguments = {"messages",
                                                                 "tools",
                                                                 "documents",
                                                                 "add_generation_prompt",
                                                                 "chat_template",
                                                                 "bos_token",
                                                                 "eos_token",
                                                                 "unk_token",
                                                                 "sep_token",
                                                                 "pad_token",
                                                                 "cls_token",
                                                                 "mask_token",
                                                                 "additional_special_tokens"};

// A callback that returns the path of a request field for error messages. For example, the callback
// for the fourth tool returns "tools[3].name" for the part ".name".
using FieldOf = absl::FunctionRef<std::string(std::string_view part)>;

absl::Status CheckName(FieldOf field, std::string_view part, std::string_view name) {
  if (!name.empty() && name.size() <= kNameBytesMax) return absl::OkStatus();
  if (name.empty()) return InvalidField(field(part), "is empty");
  return CheckBytes(field(part), name.size(), kNameBytesMax);
}

absl::Status CheckRole(FieldOf field, std::string_view role) {
  if (role.empty() || role.size() > kRoleBytesMax) {
    return InvalidField(field(".role"), "has {} bytes; a role must have 1 to {} bytes", role.size(),
                        kRoleBytesMax);
  }
  const bool is_plain = std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (is_plain) return absl::OkStatus();
  return InvalidField(field(".role"),
                      "has a byte that is not a lower-case letter, a digit, '_' or '-'");
}

// Returns an empty JSON object with memory for `num_members` members. The JSON library therefore
// does not move the members to other memory when members are added.
Json ObjectOf(size_t num_members) {
  Json object = Json::object();
  object.get_ref<Json::object_t&>().reserve(num_members);
  return object;
}

// Adds a member to `object` without a search for an equal name. REQUIRES: `object` has no member
// `name`.
void Put(Json& object, std::string_view name, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(name, std::move(value));
}

// Removes all contents of `json`. Clear is faster than the destructor of the JSON library, which
// first moves all values to a temporary list.
void Clear(Json& json) {
  if (json.is_object()) {
    auto& members = json.get_ref<Json::object_t&>();
    for (auto& [name, value] : members) Clear(value);
    members.clear();
  } else if (json.is_array()) {
    auto& elements = json.get_ref<Json::array_t&>();
    for (Json& element : elements) Clear(element);
    elements.clear();
  }
}

absl::StatusOr<Json> ToolCallJson(FieldOf field, ToolCallDraft call, BoundedJsonReader& reader) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field, ".name", call.name));
  Json arguments = Json::object();
  if (!call.arguments_json.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(
        arguments, reader.Read([&] { return field(".arguments_json"); }, call.arguments_json));
  }
  Json out = ObjectOf(3);
  if (!call.id.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field, ".id", call.id));
    Put(out, "id", std::move(call.id));
  }
  Put(out, "type", "function");
  Json function = ObjectOf(2);
  Put(function, "name", std::move(call.name));
  Put(function, "arguments", std::move(arguments));
  Put(out, "function", std::move(function));
  return out;
}

// Returns `message` as a JSON object for the chat template. A field that the client did not set is
// absent from the object, because chat templates test for the field, as in `'tool_calls' in
// message`.
absl::StatusOr<Json> MessageJson(FieldOf field, MessageDraft message, BoundedJsonReader& reader,
                                 CheckWanted check_wanted) {
  INCIPIT_RETURN_IF_ERROR(CheckRole(field, message.role));
  Json out = ObjectOf(6);
  Put(out, "role", std::move(message.role));
  Put(out, "content", std::move(message.content));
  if (!message.reasoning.empty()) {
    Put(out, "reasoning_content", std::move(message.reasoning));
  }
  if (!message.name.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field, ".name", message.name));
    Put(out, "name", std::move(message.name));
  }
  if (!message.tool_call_id.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field, ".tool_call_id", message.tool_call_id));
    Put(out, "tool_call_id", std::move(message.tool_call_id));
  }
  if (message.tool_calls.empty()) return out;
  INCIPIT_RETURN_IF_ERROR(CheckCount(field(".tool_calls"),
                                     std::max(message.num_tool_calls, message.tool_calls.size()),
                                     "calls", kToolCallsMax));
  INCIPIT_RETURN_IF_ERROR(
      reader.Count([&] { return field(".tool_calls"); },
                   kValuesPerToolCall * static_cast<int64_t>(message.tool_calls.size())));
  Json::array_t calls;
  calls.reserve(message.tool_calls.size());
  for (size_t i = 0; i < message.tool_calls.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    const auto call_field = [&](std::string_view part) {
      return field(fmt::format(".tool_calls[{}]{}", i, part));
    };
    INCIPIT_ASSIGN_OR_RETURN(calls.emplace_back(),
                             ToolCallJson(call_field, std::move(message.tool_calls[i]), reader));
  }
  Put(out, "tool_calls", std::move(calls));
  return out;
}

absl::StatusOr<Json> ToolJson(FieldOf field, ToolDraft tool, BoundedJsonReader& reader) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field, ".name", tool.name));
  Json parameters;
  if (tool.parameters_json.empty()) {
    parameters = Json{{"type", "object"}, {"properties", Json::object()}};
  } else {
    INCIPIT_ASSIGN_OR_RETURN(
        parameters, reader.Read([&] { return field(".parameters_json"); }, tool.parameters_json));
  }
  Json function = ObjectOf(3);
  Put(function, "name", std::move(tool.name));
  Put(function, "description", std::move(tool.description));
  Put(function, "parameters", std::move(parameters));
  Json out = ObjectOf(2);
  Put(out, "type", "function");
  Put(out, "function", std::move(function));
  return out;
}

absl::Status AddArguments(const std::string& text, BoundedJsonReader& reader, Json& variables) {
  if (text.empty()) return absl::OkStatus();
  constexpr std::string_view kField = "template_arguments_json";
  INCIPIT_ASSIGN_OR_RETURN(Json arguments, reader.Read([&] { return std::string(kField); }, text));
  // Adds the members of `arguments` to `variables` without a search for equal names. No name can be
  // in both objects, because the names in `variables` are reserved.
  auto& members = variables.get_ref<Json::object_t&>();
  members.reserve(members.size() + arguments.size());
  for (auto& [name, value] : arguments.get_ref<Json::object_t&>()) {
    for (const std::string_view reserved : kReservedArguments) {
      if (name == reserved) return InvalidField(kField, "sets {}, which is reserved", reserved);
    }
    members.emplace_back(name, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const ConversationDraft& draft, const RequestLimits& limits) {
  const size_t num_messages = std::max(draft.num_messages, draft.messages.size());
  if (num_messages == 0) return InvalidField("messages", "is empty");
  INCIPIT_RETURN_IF_ERROR(CheckCount("messages", num_messages, "messages", limits.messages_max));
  return CheckCount("tools", std::max(draft.num_tools, draft.tools.size()), "tools",
                    limits.tools_max);
}

}  // namespace

Conversation::~Conversation() { Clear(variables); }

absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted) {
  INCIPIT_RETURN_IF_ERROR(CheckCounts(draft, limits));
  BoundedJsonReader reader(limits.template_arguments_bytes_max, limits.json_values_max);
  Conversation out;
  if (draft.continue_final_message && !draft.messages.empty()) {
    out.final_message = draft.messages.back().content;
  }
  Json::array_t messages, tools;
  messages.reserve(draft.messages.size());
  tools.reserve(draft.tools.size());
  for (size_t i = 0; i < draft.messages.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    const auto field = [&](std::string_view part) {
      return fmt::format("messages[{}]{}", i, part);
    };
    INCIPIT_ASSIGN_OR_RETURN(
        messages.emplace_back(),
        MessageJson(field, std::move(draft.messages[i]), reader, check_wanted));
  }
  for (size_t i = 0; i < draft.tools.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    const auto field = [&](std::string_view part) { return fmt::format("tools[{}]{}", i, part); };
    INCIPIT_ASSIGN_OR_RETURN(tools.emplace_back(),
                             ToolJson(field, std::move(draft.tools[i]), reader));
  }
  if (!tools.empty() && draft.wants_tool_calls) {
    out.tools = std::make_shared<const StringParameters>(Json(tools));
  }
  out.variables = ObjectOf(4);
  Put(out.variables, "messages", std::move(messages));
  // Without tools, the variable `tools` is null, not undefined, because a template can distinguish
  // null from undefined.
  Put(out.variables, "tools", tools.empty() ? Json() : Json(std::move(tools)));
  Put(out.variables, "documents", nullptr);
  Put(out.variables, "add_generation_prompt", draft.add_generation_prompt);
  INCIPIT_RETURN_IF_ERROR(AddArguments(draft.template_arguments_json, reader, out.variables));
  return out;
}

}  // namespace incipit
