#include "text/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/json/json_fields.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// Returns the text of a file of the model folder. Returns nothing if the file does not exist.
absl::StatusOr<std::optional<std::string>> ReadFile(const std::filesystem::path& path) {
  return ReadTextFileIfExists(path, kTokenizerJsonLimits.bytes_max);
}

bool IsStandardToken(std::string_view name) {
  constexpr std::string_view kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Returns the text of a special token in a JSON file: the string `json`, or the string `content` in
// the object `json`. Returns nothing if `json` has another form.
std::optional<std::string> TokenText(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return std::nullopt;
  const auto content = json.find("content");
  if (content == json.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

// Adds the special tokens in `json` to `config`. Replaces a special token that has the same name.
absl::Status ReadSpecialTokens(const nlohmann::json& json, TokenizerConfig& config) {
  const auto set = [&](const std::string& name, const nlohmann::json& value) {
    std::optional<std::string> text = TokenText(value);
    if (text) config.special_tokens.insert_or_assign(name, *std::move(text));
    return text.has_value();
  };
  for (const auto& [name, value] : json.items()) {
    if (!name.ends_with("_token") || value.is_null() || set(name, value)) continue;
    // A key that is not a standard token, such as add_bos_token, may have any value.
    if (IsStandardToken(name)) {
      return InvalidArgument(
          "the token {} is {}; a token must be a string, or an object with the string "
          "`content`",
          name, value.type_name());
    }
  }
  if (const auto extra = json.find("extra_special_tokens");
      extra != json.end() && extra->is_object()) {
    for (const auto& [name, value] : extra->items()) set(name, value);
  }
  const auto additional = json.find("additional_special_tokens");
  if (additional == json.end() || !additional->is_array()) return absl::OkStatus();
  for (const nlohmann::json& value : *additional) {
    std::optional<std::string> text = TokenText(value);
    auto& tokens = config.additional_special_tokens;
    if (text && std::ranges::find(tokens, *text) == tokens.end()) {
      tokens.push_back(*std::move(text));
    }
  }
  return absl::OkStatus();
}

// Reads the field `chat_template`: a string (one template) or a list of named templates.
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
  return InvalidArgument(
      "a chat template in the folder {} must be valid UTF-8 and have at most {} bytes",
      folder.string(), kChatTemplateBytesMax);
}

// Reads the contents of a tokenizer_config.json. Returns true if the file has the key
// added_tokens_decoder, and therefore contains all special tokens.
absl::StatusOr<bool> ReadConfig(std::string_view text, TokenizerConfig& config) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, kTokenizerJsonLimits));
  const JsonFields fields(json);
  INCIPIT_RETURN_IF_ERROR(ReadSpecialTokens(json, config));
  INCIPIT_RETURN_IF_ERROR(ReadChatTemplates(fields, config));
  return json.contains("added_tokens_decoder");
}

absl::Status ReadTokenMap(std::string_view text, TokenizerConfig& config) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, kTokenizerJsonLimits));
  return ReadSpecialTokens(json, config);
}

absl::Status ReadTokenFiles(const std::filesystem::path& folder, TokenizerConfig& config) {
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  INCIPIT_ASSIGN_OR_RETURN(const auto config_text, ReadFile(config_path));
  if (config_text) {
    const auto lists_tokens = ReadConfig(*config_text, config);
    if (!lists_tokens.ok()) return Annotate(lists_tokens.status(), config_path.string());
    if (*lists_tokens) return absl::OkStatus();
  }
  const std::filesystem::path map_path = folder / "special_tokens_map.json";
  INCIPIT_ASSIGN_OR_RETURN(const auto map_text, ReadFile(map_path));
  if (!map_text) return absl::OkStatus();
  return Annotate(ReadTokenMap(*map_text, config), map_path.string());
}

}  // namespace

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder) {
  TokenizerConfig config;
  INCIPIT_RETURN_IF_ERROR(ReadTokenFiles(folder, config));
  INCIPIT_ASSIGN_OR_RETURN(auto chat_template, ReadFile(folder / "chat_template.jinja"));
  INCIPIT_ASSIGN_OR_RETURN(auto tool_chat_template,
                           ReadFile(folder / "additional_chat_templates" / "tool_use.jinja"));
  if (chat_template || tool_chat_template) {
    config.chat_template = std::move(chat_template);
    config.tool_chat_template = std::move(tool_chat_template);
  }
  INCIPIT_RETURN_IF_ERROR(CheckTemplate(config.chat_template, folder));
  INCIPIT_RETURN_IF_ERROR(CheckTemplate(config.tool_chat_template, folder));
  return config;
}

}  // namespace incipit
