#include "engine/text/tokenizer_config.h"

#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "base/status.h"
#include "engine/text/json_fields.h"
#include "engine/text/utf8.h"

namespace incipit {
namespace {

// Nothing where there is no such file.
absl::StatusOr<std::optional<std::string>> ReadFile(const std::filesystem::path& path) {
  const auto file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::optional<std::string>();
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  return std::optional(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// A token is a string, or an object whose `content` is the string.
absl::StatusOr<std::optional<std::string>> ReadToken(const JsonFields& fields, const char* name) {
  const nlohmann::json* json = fields.Find(name);
  if (json == nullptr || json->is_string()) return fields.OptionalString(name);
  INCIPIT_ASSIGN_OR_RETURN(const JsonFields token, JsonFields::Of(*json, name));
  return token.OptionalString("content");
}

// A template is a string, or a list of named ones.
absl::Status ReadChatTemplates(const JsonFields& fields, TokenizerConfig& config) {
  const nlohmann::json* json = fields.Find("chat_template");
  if (json == nullptr || !json->is_array()) {
    INCIPIT_ASSIGN_OR_RETURN(config.chat_template, fields.OptionalString("chat_template"));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < json->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const JsonFields named,
                             JsonFields::Of((*json)[i], fmt::format("chat_template[{}]", i)));
    INCIPIT_ASSIGN_OR_RETURN(const std::string name, named.String("name"));
    if (name != "default" && name != "tool_use") continue;
    auto& source = name == "default" ? config.chat_template : config.tool_chat_template;
    INCIPIT_ASSIGN_OR_RETURN(source, named.OptionalString("template"));
  }
  return absl::OkStatus();
}

absl::Status CheckTemplate(const std::optional<std::string>& source,
                           const std::filesystem::path& folder) {
  if (!source || (source->size() <= kChatTemplateBytesMax && IsUtf8(*source))) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: the chat template is no UTF-8 text of at most {} bytes",
                         folder.string(), kChatTemplateBytesMax);
}

absl::StatusOr<TokenizerConfig> Parse(std::string_view text) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text));
  INCIPIT_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, ""));
  TokenizerConfig config;
  INCIPIT_ASSIGN_OR_RETURN(config.bos_token, ReadToken(fields, "bos_token"));
  INCIPIT_ASSIGN_OR_RETURN(config.eos_token, ReadToken(fields, "eos_token"));
  INCIPIT_RETURN_IF_ERROR(ReadChatTemplates(fields, config));
  return config;
}

}  // namespace

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  INCIPIT_ASSIGN_OR_RETURN(const auto config_text, ReadFile(config_path));
  if (config_text) {
    auto parsed = Parse(*config_text);
    if (!parsed.ok()) return Annotate(parsed.status(), config_path.string());
    config = *std::move(parsed);
  }
  const std::filesystem::path template_path = folder / "chat_template.jinja";
  INCIPIT_ASSIGN_OR_RETURN(auto chat_template, ReadFile(template_path));
  if (chat_template) {
    config.chat_template = std::move(chat_template);
    config.tool_chat_template.reset();
  }
  INCIPIT_RETURN_IF_ERROR(CheckTemplate(config.chat_template, folder));
  INCIPIT_RETURN_IF_ERROR(CheckTemplate(config.tool_chat_template, folder));
  return config;
}

}  // namespace incipit
