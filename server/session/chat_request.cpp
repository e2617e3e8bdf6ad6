#include "server/session/chat_request.h"

#include <incipit/v1/inference.pb.h>

#include <algorithm>
#include <array>

#include "base/status.h"
#include "server/rpc/error_details.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRoleBytesMax = 64;
constexpr size_t kNameBytesMax = 256;  // of tools, of authors, and of ids of tool calls
constexpr int kToolCallsMax = 128;     // of one message
constexpr int kJsonDepthMax = 32;
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

absl::StatusOr<Json> ParseObject(std::string_view field, const std::string& text,
                                 const RequestLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.template_arguments_bytes_max) {
    return InvalidField(field, "has {} bytes; at most {} are allowed", text.size(),
                        limits.template_arguments_bytes_max);
  }
  // The depth is looked at while parsing: what is too deep is dropped there, not walked later.
  bool too_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kJsonDepthMax;
    return depth <= kJsonDepthMax;
  };
  Json value = Json::parse(text, watch_depth, /*allow_exceptions=*/false);
  if (too_deep) return InvalidField(field, "is nested deeper than {} levels", kJsonDepthMax);
  if (!value.is_object()) return InvalidField(field, "is not a JSON object");
  return value;
}

absl::Status CheckName(const std::string& field, std::string_view name) {
  if (name.empty()) return InvalidField(field, "is empty");
  if (name.size() <= kNameBytesMax) return absl::OkStatus();
  return InvalidField(field, "has {} bytes; at most {} are allowed", name.size(), kNameBytesMax);
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

absl::StatusOr<Json> ToolCallJson(const std::string& field, const v1::ToolCall& call,
                                  const RequestLimits& limits) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", call.name()));
  Json arguments = Json::object();
  if (!call.arguments_json().empty()) {
    INCIPIT_ASSIGN_OR_RETURN(arguments,
                             ParseObject(field + ".arguments_json", call.arguments_json(), limits));
  }
  Json out;
  if (!call.id().empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".id", call.id()));
    out["id"] = call.id();
  }
  out["type"] = "function";
  out["function"] = Json{{"name", call.name()}, {"arguments", std::move(arguments)}};
  return out;
}

// Keys that were not given are left out: templates ask `'tool_calls' in message`.
absl::StatusOr<Json> MessageJson(const std::string& field, const v1::ChatMessage& message,
                                 const RequestLimits& limits) {
  INCIPIT_RETURN_IF_ERROR(CheckRole(field + ".role", message.role()));
  Json out;
  out["role"] = message.role();
  out["content"] = message.content();
  if (!message.name().empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", message.name()));
    out["name"] = message.name();
  }
  if (!message.tool_call_id().empty()) {
    INCIPIT_RETURN_IF_ERROR(CheckName(field + ".tool_call_id", message.tool_call_id()));
    out["tool_call_id"] = message.tool_call_id();
  }
  if (message.tool_calls_size() > kToolCallsMax) {
    return InvalidField(field + ".tool_calls", "has {} calls; at most {} are allowed",
                        message.tool_calls_size(), kToolCallsMax);
  }
  for (int i = 0; i < message.tool_calls_size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Json call, ToolCallJson(fmt::format("{}.tool_calls[{}]", field, i),
                                                     message.tool_calls(i), limits));
    out["tool_calls"].push_back(std::move(call));
  }
  return out;
}

absl::StatusOr<Json> ToolJson(const std::string& field, const v1::Tool& tool,
                              const RequestLimits& limits) {
  INCIPIT_RETURN_IF_ERROR(CheckName(field + ".name", tool.name()));
  Json function;
  function["name"] = tool.name();
  function["description"] = tool.description();
  function["parameters"] = Json{{"type", "object"}, {"properties", Json::object()}};
  if (!tool.parameters_json().empty()) {
    INCIPIT_ASSIGN_OR_RETURN(function["parameters"], ParseObject(field + ".parameters_json",
                                                                 tool.parameters_json(), limits));
  }
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

absl::Status AddArguments(const v1::ChatRequest& message, const RequestLimits& limits,
                          Json& variables) {
  if (message.template_arguments_json().empty()) return absl::OkStatus();
  constexpr std::string_view kField = "template_arguments_json";
  INCIPIT_ASSIGN_OR_RETURN(Json arguments,
                           ParseObject(kField, message.template_arguments_json(), limits));
  for (auto& [name, value] : arguments.items()) {
    for (const std::string_view reserved : kReservedArguments) {
      if (name == reserved) return InvalidField(kField, "sets {}, which is reserved", reserved);
    }
    variables[name] = std::move(value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Conversation> CheckConversation(const v1::ChatRequest& message,
                                               const RequestLimits& limits) {
  if (message.messages().empty()) return InvalidField("messages", "is empty");
  if (message.messages_size() > limits.messages_max) {
    return InvalidField("messages", "has {} messages; at most {} are allowed",
                        message.messages_size(), limits.messages_max);
  }
  if (message.tools_size() > limits.tools_max) {
    return InvalidField("tools", "has {} tools; at most {} are allowed", message.tools_size(),
                        limits.tools_max);
  }
  Conversation out;
  // Absent lists are null rather than undefined, which templates tell apart.
  out.variables["messages"] = Json::array();
  out.variables["tools"] = nullptr;
  out.variables["documents"] = nullptr;
  for (int i = 0; i < message.messages_size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(
        Json entry, MessageJson(fmt::format("messages[{}]", i), message.messages(i), limits));
    out.variables["messages"].push_back(std::move(entry));
  }
  for (int i = 0; i < message.tools_size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Json tool,
                             ToolJson(fmt::format("tools[{}]", i), message.tools(i), limits));
    out.variables["tools"].push_back(std::move(tool));
  }
  out.variables["add_generation_prompt"] =
      message.has_add_generation_prompt() ? message.add_generation_prompt() : true;
  INCIPIT_RETURN_IF_ERROR(AddArguments(message, limits, out.variables));
  return out;
}

}  // namespace incipit
