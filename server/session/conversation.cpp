#include "server/session/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "server/session/bounded_json.h"
#include "server/session/field_checks.h"
#include "server/session/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRoleBytesMax = 64;
constexpr size_t kNameBytesMax = 256;  // of tools, of authors, and of ids of tool calls
// What the server gives templates itself, and what a template is: a client's own would be code.
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

absl::Status CheckName(const std::string& field, std::string_view name) {
  if (name.empty()) return InvalidField(field, "is empty");
  return CheckBytes(field, name.size(), kNameBytesMax);
}

absl::Status CheckRole(const std::string& field, std::string_view role) {
  if (role.empty() || role.size() > kRoleBytesMax) {
    return InvalidField(field, "has {} bytes; it must have 1 to {}", role.size(), kRoleBytesMax);
  }
  const bool is_plain = std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (is_plain) return absl::OkStatus();
  return InvalidField(field, "has a byte that is no lower-case letter, digit, '_' or '-'");
}

absl::StatusOr<Json> ToolCallJson(const std::string& field, ToolCallDraft call,
                                  BoundedJsonReader& reader) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", call.name));
  Json arguments = Json::object();
  if (!call.arguments_json.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(arguments,
                             reader.Read(field + ".arguments_json", call.arguments_json));
  }
  Json out;
  if (!call.id.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".id", call.id));
    out["id"] = std::move(call.id);
  }
  out["type"] = "function";
  Json& function = out["function"];
  function["name"] = std::move(call.name);
  function["arguments"] = std::move(arguments);
  return out;
}

// Keys that were not given are left out: templates ask `'tool_calls' in message`.
absl::StatusOr<Json> MessageJson(const std::string& field, MessageDraft message,
                                 BoundedJsonReader& reader, CheckWanted check_wanted) {
  INCIPIT_RETURN_IF_ERROR(CheckRole(field + ".role", message.role));
  Json out;
  out["role"] = std::move(message.role);
  out["content"] = std::move(message.content);
  if (!message.name.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", message.name));
    out["name"] = std::move(message.name);
  }
  if (!message.tool_call_id.empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".tool_call_id", message.tool_call_id));
    out["tool_call_id"] = std::move(message.tool_call_id);
  }
  if (message.tool_calls.empty()) return out;
  INCIPIT_RETURN_IF_ERROR(CheckCount(field + ".tool_calls",
                                     std::max(message.num_tool_calls, message.tool_calls.size()),
                                     "calls", kToolCallsMax));
  Json& calls = out["tool_calls"] = Json::array();
  for (size_t i = 0; i < message.tool_calls.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    INCIPIT_ASSIGN_OR_RETURN(calls.emplace_back(),
                             ToolCallJson(fmt::format("{}.tool_calls[{}]", field, i),
                                          std::move(message.tool_calls[i]), reader));
  }
  return out;
}

absl::StatusOr<Json> ToolJson(const std::string& field, ToolDraft tool, BoundedJsonReader& reader) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", tool.name));
  Json out;
  out["type"] = "function";
  Json& function = out["function"];
  function["name"] = std::move(tool.name);
  function["description"] = std::move(tool.description);
  Json& parameters = function["parameters"];
  if (tool.parameters_json.empty()) {
    parameters = Json{{"type", "object"}, {"properties", Json::object()}};
    return out;
  }
  INCIPIT_ASSIGN_OR_RETURN(parameters,
                           reader.Read(field + ".parameters_json", tool.parameters_json));
  return out;
}

absl::Status AddArguments(const std::string& text, BoundedJsonReader& reader, Json& variables) {
  if (text.empty()) return absl::OkStatus();
  constexpr std::string_view kField = "template_arguments_json";
  INCIPIT_ASSIGN_OR_RETURN(Json arguments, reader.Read(kField, text));
  // The names are distinct, and none of them is reserved: no name needs to be looked up.
  auto& members = variables.get_ref<Json::object_t&>();
  for (auto& [name, value] : arguments.get_ref<Json::object_t&>()) {
    for (const std::string_view reserved : kReservedArguments) {
      if (name == reserved) return InvalidField(kField, "sets {}, which is reserved", reserved);
    }
    members.push_back({name, std::move(value)});
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

absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted) {
  INCIPIT_RETURN_IF_ERROR(CheckCounts(draft, limits));
  BoundedJsonReader reader(limits.template_arguments_bytes_max, limits.json_values_max);
  Conversation out;
  // Absent lists are null rather than undefined, which templates tell apart.
  Json messages = Json::array(), tools;
  for (size_t i = 0; i < draft.messages.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    INCIPIT_ASSIGN_OR_RETURN(messages.emplace_back(),
                             MessageJson(fmt::format("messages[{}]", i),
                                         std::move(draft.messages[i]), reader, check_wanted));
  }
  for (size_t i = 0; i < draft.tools.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(check_wanted());
    INCIPIT_ASSIGN_OR_RETURN(tools.emplace_back(), ToolJson(fmt::format("tools[{}]", i),
                                                            std::move(draft.tools[i]), reader));
  }
  out.variables["messages"] = std::move(messages);
  out.variables["tools"] = std::move(tools);
  out.variables["documents"] = nullptr;
  out.variables["add_generation_prompt"] = draft.add_generation_prompt;
  INCIPIT_RETURN_IF_ERROR(AddArguments(draft.template_arguments_json, reader, out.variables));
  return out;
}

}  // namespace incipit
