// The program `incipit`: runs the command that the first argument names.
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/serve.h"

namespace incipit {
namespace {

constexpr Command kServe = {"serve", "serve a model over gRPC", RunServe};

std::vector<Command> AllCommands() {
  std::vector<Command> all = {kServe};
  const auto others = Commands();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::string Help() {
  return fmt::format(
             "incipit {}: serves language models over gRPC and HTTP, with a prefix cache\n\n"
             "Usage: incipit COMMAND [--flag value]...\n\nCommands:\n",
             INCIPIT_VERSION) +
         CommandLines(AllCommands()) +
         "\n`incipit COMMAND --help` explains a command and its flags. Examples:\n\n"
         "  incipit serve --model models/incipit-tiny\n"
         "  incipit generate --prompt 'Once upon a time'\n";
}

int Main(std::span<const std::string_view> args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(Help().c_str(), args.empty() ? stderr : stdout);
    return args.empty() ? kExitUsage : kExitOk;
  }
  if (args[0] == "--version") {
    std::fputs("incipit " INCIPIT_VERSION "\n", stdout);
    return kExitOk;
  }
  const auto command = FindCommand(AllCommands(), args[0], "; `incipit --help` lists all commands");
  if (command.ok()) return command->run(args.subspan(1));
  fmt::print(stderr, "incipit: {}\n", MessageOf(command.status()));
  return kExitUsage;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  const int exit_code = incipit::Main(args);
  // Report an error if stdout could not be written, for example because the disk is full.
  if (exit_code == incipit::kExitOk && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    std::fputs("incipit: the output could not be written\n", stderr);
    return incipit::kExitFailure;
  }
  return exit_code;
}
