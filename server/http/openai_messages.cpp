#include "server/http/openai_messages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

// Returns the text in the field "content" of the chat message `message`. The field is a string,
// null, or an array of text parts.
absl::StatusOr<std::string> ReadContent(const OpenAiFields& message) {
  const Json* const content = message.Find("content");
  if (content == nullptr) return std::string();
  const std::string path = message.PathOf("content");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return InvalidField(path, "must be a string or an array of text parts");
  std::string out;
  for (size_t i = 0; i < content->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const auto part,
                             OpenAiFields::Of((*content)[i], fmt::format("{}[{}]", path, i)));
    INCIPIT_ASSIGN_OR_RETURN(const auto type, part.Text("type"));
    if (type.value_or("text") != "text") {
      return part.Unsupported("type",
                              "must be \"text\"; the server supports only text in messages");
    }
    INCIPIT_ASSIGN_OR_RETURN(const auto text, part.Text("text"));
    if (!text) return part.Unsupported("text", "is missing");
    if (i > 0) out += '\n';
    out += *text;
  }
  return out;
}

absl::StatusOr<ToolCallDraft> ReadToolCall(const OpenAiFields& call) {
  ToolCallDraft out;
  INCIPIT_ASSIGN_OR_RETURN(auto id, call.Text("id"));
  out.id = std::move(id).value_or("");
  const Json* const function = call.Find("function");
  if (function == nullptr) return call.Unsupported("function", "is missing");
  INCIPIT_ASSIGN_OR_RETURN(const auto fields, OpenAiFields::Of(*function, call.PathOf("function")));
  INCIPIT_ASSIGN_OR_RETURN(auto name, fields.Text("name"));
  out.name = std::move(name).value_or("");
  // In OpenAI's API, the arguments of a tool call are a string that contains a JSON object. The
  // server also accepts the JSON object itself.
  const Json* const arguments = fields.Find("arguments");
  if (arguments == nullptr) return out;
  if (arguments->is_string()) {
    out.arguments_json = arguments->get<std::string>();
  } else if (arguments->is_object()) {
    out.arguments_json = arguments->dump();
  } else {
    return fields.Unsupported("arguments",
                              "must be a JSON object or a string that contains a JSON object");
  }
  return out;
}

absl::StatusOr<MessageDraft> ReadMessage(const OpenAiFields& fields) {
  MessageDraft out;
  INCIPIT_ASSIGN_OR_RETURN(auto role, fields.Text("role"));
  out.role = std::move(role).value_or("");
  if (out.role == "developer") out.role = "system";
  INCIPIT_ASSIGN_OR_RETURN(out.content, ReadContent(fields));
  // vLLM has two field names for the reasoning of a message: the old name "reasoning_content" and
  // the new name "reasoning". The server accepts both names.
  INCIPIT_ASSIGN_OR_RETURN(auto reasoning, fields.Text("reasoning_content"));
  INCIPIT_ASSIGN_OR_RETURN(auto new_reasoning, fields.Text("reasoning"));
  if (!reasoning) reasoning = std::move(new_reasoning);
  out.reasoning = std::move(reasoning).value_or("");
  INCIPIT_ASSIGN_OR_RETURN(auto name, fields.Text("name"));
  out.name = std::move(name).value_or("");
  INCIPIT_ASSIGN_OR_RETURN(auto tool_call_id, fields.Text("tool_call_id"));
  out.tool_call_id = std::move(tool_call_id).value_or("");
  const Json* const calls = fields.Find("tool_calls");
  if (calls == nullptr) return out;
  const std::string path = fields.PathOf("tool_calls");
  if (!calls->is_array()) return InvalidField(path, "must be an array");
  out.num_tool_calls = calls->size();
  for (size_t i = 0; i < std::min<size_t>(calls->size(), kToolCallsMax); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const auto call,
                             OpenAiFields::Of((*calls)[i], fmt::format("{}[{}]", path, i)));
    INCIPIT_ASSIGN_OR_RETURN(out.tool_calls.emplace_back(), ReadToolCall(call));
  }
  return out;
}

absl::StatusOr<ToolDraft> ReadTool(const OpenAiFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const auto type, fields.Text("type"));
  if (type.value_or("function") != "function") {
    return fields.Unsupported("type", "must be \"function\"");
  }
  const Json* const function = fields.Find("function");
  if (function == nullptr) return fields.Unsupported("function", "is missing");
  INCIPIT_ASSIGN_OR_RETURN(const auto inner,
                           OpenAiFields::Of(*function, fields.PathOf("function")));
  ToolDraft out;
  INCIPIT_ASSIGN_OR_RETURN(auto name, inner.Text("name"));
  out.name = std::move(name).value_or("");
  INCIPIT_ASSIGN_OR_RETURN(auto description, inner.Text("description"));
  out.description = std::move(description).value_or("");
  if (const Json* const parameters = inner.Find("parameters"); parameters != nullptr) {
    if (!parameters->is_object()) return inner.Unsupported("parameters", "must be a JSON object");
    out.parameters_json = parameters->dump();
  }
  return out;
}

// Reads the variables of the chat template: the members of the field chat_template_kwargs, and the
// field reasoning_effort.
absl::Status ReadTemplateArguments(const OpenAiFields& fields, ConversationDraft& out) {
  const Json* const given = fields.Find("chat_template_kwargs");
  if (given != nullptr && !given->is_object()) {
    return InvalidField("chat_template_kwargs", "must be a JSON object");
  }
  INCIPIT_ASSIGN_OR_RETURN(const auto effort, fields.Text("reasoning_effort"));
  if (!effort) {
    if (given != nullptr) out.template_arguments_json = given->dump();
    return absl::OkStatus();
  }
  Json arguments = given == nullptr ? Json::object() : *given;
  // If chat_template_kwargs contains reasoning_effort, `emplace` does not replace that value.
  arguments.emplace("reasoning_effort", *effort);
  out.template_arguments_json = arguments.dump();
  return absl::OkStatus();
}

absl::Status ReadTemplateOptions(const OpenAiFields& fields, ConversationDraft& out) {
  INCIPIT_RETURN_IF_ERROR(ReadTemplateArguments(fields, out));
  INCIPIT_ASSIGN_OR_RETURN(const auto generates, fields.Bool("add_generation_prompt"));
  INCIPIT_ASSIGN_OR_RETURN(const auto continues, fields.Bool("continue_final_message"));
  out.continue_final_message = continues.value_or(false);
  out.add_generation_prompt = generates.value_or(!out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt) {
    return InvalidField("continue_final_message", "must be false if add_generation_prompt is true");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConversationDraft> ReadConversation(const OpenAiFields& fields,
                                                   const RequestLimits& limits) {
  ConversationDraft out;
  const Json* const messages = fields.Find("messages");
  if (messages == nullptr) return InvalidField("messages", "is missing");
  if (!messages->is_array()) return InvalidField("messages", "must be an array");
  out.num_messages = messages->size();
  for (size_t i = 0; i < std::min<size_t>(messages->size(), limits.messages_max); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const auto message,
                             OpenAiFields::Of((*messages)[i], fmt::format("messages[{}]", i)));
    INCIPIT_ASSIGN_OR_RETURN(out.messages.emplace_back(), ReadMessage(message));
  }
  if (const Json* const tools = fields.Find("tools"); tools != nullptr) {
    if (!tools->is_array()) return InvalidField("tools", "must be an array");
    out.num_tools = tools->size();
    for (size_t i = 0; i < std::min<size_t>(tools->size(), limits.tools_max); ++i) {
      INCIPIT_ASSIGN_OR_RETURN(const auto tool,
                               OpenAiFields::Of((*tools)[i], fmt::format("tools[{}]", i)));
      INCIPIT_ASSIGN_OR_RETURN(out.tools.emplace_back(), ReadTool(tool));
    }
  }
  const Json* const choice = fields.Find("tool_choice");
  out.wants_tool_calls = choice == nullptr || *choice != "none";
  INCIPIT_RETURN_IF_ERROR(ReadTemplateOptions(fields, out));
  return out;
}

}  // namespace incipit
