#include "cli/render.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/flags.h"
#include "base/status.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

constexpr CommandText kRenderText = {
    "render", "--tokenizer DIR | --template FILE < LINES",
    "Renders conversations with a chat template, without a server. Each line of the input is an "
    "object\n"
    "with messages and, as the template wants them, tools, documents, add_generation_prompt and "
    "any\n"
    "other argument; each line of the output is the prompt as a JSON string, or {\"error\": ...} "
    "for a\n"
    "line that is wrong or that the template refuses.\n"
    "\n"
    "With --tokenizer the template and the special tokens (bos_token, eos_token, ...) come from "
    "the\n"
    "folder; with --template from the file and the lines. A line's own bos_token, ... win. With\n"
    "--tokenizer, tools and documents that are not given are null and add_generation_prompt is "
    "false;\n"
    "with --template they are undefined.\n"
    "\n"
    "Exit code: 0, 1 if the template cannot be loaded or the input cannot be read, 2 if a flag is\n"
    "wrong.",
    "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
    "\"add_generation_prompt\": true}' |\n"
    "    incipit render --tokenizer models/incipit-tiny\n"
    "  incipit render --template chat_template.jinja < conversations.jsonl\n"};

struct LoadedTemplate {
  ChatTemplate chat_template;
  bool is_folder = false;
};

absl::StatusOr<LoadedTemplate> LoadFromFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string source((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  if (!file) return InvalidArgument("{} cannot be read", path);
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
    return InvalidArgument("a line must be an object whose messages are an array");
  }
  // What a model's folder is rendered with where a line says nothing, as its authors' tools do it.
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
  flags.String({"tokenizer", "DIR", "A folder with tokenizer.json and a chat template."}, folder);
  flags.String({"template", "FILE", "A chat template on its own."}, file);
  if (const auto exit_code = ParseArguments(kRenderText, flags, args)) return *exit_code;
  if (folder.empty() == file.empty()) {
    return ReportUsage(kRenderText, InvalidArgument("one of --tokenizer and --template is needed"));
  }
  const auto loaded = file.empty() ? LoadFromFolder(folder) : LoadFromFile(file);
  if (!loaded.ok()) return ReportFailure(kRenderText, MessageOf(loaded.status()));
  return RunJsonLines(kRenderText,
                      [&](ordered_json line) { return RenderLine(*loaded, std::move(line)); });
}

}  // namespace incipit
