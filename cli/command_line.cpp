#include "cli/command_line.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "base/status.h"
#include "cli/client/terminal.h"

namespace incipit {

namespace {

int PrintHelp(const CommandText& text, const Flags& flags) {
  const Painter paint(stdout);
  Print(stdout, fmt::format("{} incipit {} {}\n\n{}\n\n{}\n{}\n{}", paint.Bold("Usage:"), text.name,
                            text.synopsis, text.description, flags.Help(), paint.Bold("Examples:"),
                            text.examples));
  return kExitOk;
}

}  // namespace

std::string CommandLines(std::span<const Command> commands) {
  std::string lines;
  for (const Command& command : commands) {
    lines += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  return lines;
}

absl::StatusOr<Command> FindCommand(std::span<const Command> commands, std::string_view name,
                                    std::string_view otherwise) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const auto nearest = NearestName(name, names);
  return InvalidArgument(
      "unknown command \"{}\"{}", name.substr(0, 80),
      nearest ? fmt::format("; did you mean {}?", *nearest) : std::string(otherwise));
}

std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args) {
  if (const absl::Status status = flags.ParseAll(args); !status.ok()) {
    return ReportUsage(text, status);
  }
  if (flags.help_requested()) return PrintHelp(text, flags);
  return std::nullopt;
}

std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args,
                                  std::initializer_list<Argument> arguments) {
  const auto others = flags.Parse(args);
  if (!others.ok()) return ReportUsage(text, others.status());
  if (flags.help_requested()) return PrintHelp(text, flags);
  size_t count = 0;
  for (const Argument& argument : arguments) {
    if (count == others->size()) {
      return ReportUsage(text, InvalidArgument("{} is missing", argument.name));
    }
    argument.value = (*others)[count++];
  }
  if (others->size() == count) return std::nullopt;
  return ReportUsage(
      text, InvalidArgument("only one {} is allowed; remove the argument \"{}\"",
                            std::data(arguments)[count - 1].name, (*others)[count].substr(0, 80)));
}

std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args, std::string_view name,
                                  std::string& argument) {
  return ParseArguments(text, flags, args, {Argument{name, argument}});
}

int ReportUsage(const CommandText& text, const absl::Status& status) {
  Print(stderr, fmt::format("{} {}\n`incipit {} --help` shows all flags and examples.\n",
                            Painter(stderr).Red(fmt::format("incipit {}:", text.name)),
                            MessageOf(status), text.name));
  return kExitUsage;
}

int ReportFailure(const CommandText& text, std::string_view message) {
  Print(stderr, fmt::format("{} {}\n", Painter(stderr).Red(fmt::format("incipit {}:", text.name)),
                            message));
  return kExitFailure;
}

}  // namespace incipit
