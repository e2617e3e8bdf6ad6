// Renders templates for tests/chat_differential.py. Each input line is a JSON object. Each output
// line is the rendered text as a JSON string, or {"error": message}.
//   render_driver --template FILE   input line: the variables
//   render_driver --snippets        input line: {"template": source, "variables": {...}}
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "base/status.h"
#include "text/chat/chat_template.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

std::string RenderLine(const absl::StatusOr<ChatTemplate>& parsed, const Json& variables) {
  if (!parsed.ok()) return Json{{"error", MessageOf(parsed.status())}}.dump();
  const absl::StatusOr<RenderedPrompt> prompt = parsed->Render(variables);
  if (!prompt.ok())
    return Json{{"error", MessageOf(prompt.status())}}.dump(-1, ' ', true,
                                                            Json::error_handler_t::replace);
  return Json(prompt->text).dump();
}

int Run(const std::optional<std::string>& file) {
  std::optional<absl::StatusOr<ChatTemplate>> parsed;
  if (file) {
    std::ifstream stream(*file, std::ios::binary);
    parsed = ChatTemplate::Parse(std::string(std::istreambuf_iterator<char>(stream), {}));
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Json json = Json::parse(line);
    const std::string answer =
        parsed ? RenderLine(*parsed, json)
               : RenderLine(ChatTemplate::Parse(json["template"].get<std::string>()),
                            json["variables"]);
    std::puts(answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--snippets") return incipit::Run(std::nullopt);
  if (mode == "--template" && argc > 2) return incipit::Run(argv[2]);
  std::fputs("usage: render_driver --template FILE | --snippets\n", stderr);
  return 2;
}
