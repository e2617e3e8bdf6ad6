#include "cli/render.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/flags.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_config.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

constexpr CommandText kRenderText = {
    "render", "--tokenizer DIR | --template FILE < LINES",
    "Converts conversations to prompts with a chat template, without a server. Each input line\n"
    "is an object with messages and with the other arguments of the template, such as tools,\n"
    "documents and add_generation_prompt. Each output line is the prompt as a JSON string, or\n"
    "{\"error\": ...} if the line is wrong or the template rejects the line.\n"
    "\n"
    "--tokenizer uses the chat template of a model folder. Special tokens of the model, such as\n"
    "bos_token, are arguments of the template, unless the input line contains an argument with\n"
    "the same name. The default of tools and documents is null, and the default of\n"
    "add_generation_prompt is false. --template uses only a template file, and has no defaults.\n"
    "\n"
    "Exit codes: 0 success, 1 the template cannot be loaded or the input cannot be read, 2 a\n"
    "flag is wrong.",
    "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
    "\"add_generation_prompt\": true}' |\n"
    "    incipit render --tokenizer models/incipit-tiny\n"
    "  incipit render --template chat_template.jinja < conversations.jsonl\n"};

struct LoadedTemplate {
  ChatTemplate chat_template;
  bool is_folder = false;
};

absl::StatusOr<LoadedTemplate> LoadFromFile(const std::string& path) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string source, ReadTextInput(path, kChatTemplateBytesMax));
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  return LoadedTemplate{*std::move(parsed), /*is_folder=*/false};
}

absl::StatusOr<LoadedTemplate> LoadFromFolder(const std::string& folder) {
  INCIPIT_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(folder));
  const TokenizerConfig& config = tokenizer->config();
  if (!config.has_chat_template()) return FailedPrecondition("{} has no chat template", folder);
  auto parsed = ChatTemplate::Parse(config);
  if (!parsed.ok()) return Annotate(parsed.status(), folder + ": chat template");
  return LoadedTemplate{*std::move(parsed), /*is_folder=*/true};
}

absl::StatusOr<ordered_json> RenderLine(const LoadedTemplate& loaded, ordered_json line) {
  if (!line.is_object() || !line.contains("messages") || !line["messages"].is_array()) {
    return InvalidArgument("a line must be a JSON object with an array under the key messages");
  }
  // If the template is from a model folder, set a default for each template argument that the input
  // line does not have.
  if (loaded.is_folder) {
    if (!line.contains("tools")) line["tools"] = nullptr;
    if (!line.contains("documents")) line["documents"] = nullptr;
    if (!line.contains("add_generation_prompt")) line["add_generation_prompt"] = false;
  }
  INCIPIT_ASSIGN_OR_RETURN(const RenderedPrompt prompt, loaded.chat_template.Render(line));
  return ordered_json(prompt.text);
}

}  // namespace

int RunRender(std::span<const std::string_view> args) {
  std::string folder, file;
  Flags flags;
  flags.String({"tokenizer", "DIR", "Model folder with tokenizer.json and a chat template."},
               folder);
  flags.String({"template", "FILE", "File with a chat template."}, file);
  if (const auto exit_code = ParseArguments(kRenderText, flags, args)) return *exit_code;
  if (folder.empty() == file.empty()) {
    return ReportUsage(kRenderText,
                       InvalidArgument("exactly one of --tokenizer and --template is required"));
  }
  const auto loaded = file.empty() ? LoadFromFolder(folder) : LoadFromFile(file);
  if (!loaded.ok()) return ReportFailure(kRenderText, MessageOf(loaded.status()));
  return RunJsonLines(kRenderText,
                      [&](ordered_json line) { return RenderLine(*loaded, std::move(line)); });
}

}  // namespace incipit
