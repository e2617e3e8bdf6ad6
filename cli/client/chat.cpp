#include "cli/client/chat.h"

#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/flags.h"
#include "base/status.h"
#include "cli/client/client.h"
#include "cli/client/collected_output.h"
#include "cli/client/interrupt.h"
#include "cli/client/request_flags.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "incipit/v1/inference.grpc.pb.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr CommandText kChatText = {
    "chat", "[--message TEXT] [flags]",
    "Starts a conversation with a model that has a chat template. The output of the model is\n"
    "printed as it arrives. Ctrl-C stops the output. Between two outputs, Ctrl-C ends the "
    "program.\n"
    "Each request contains the whole conversation, and the server computes only the new part.\n"
    "\n"
    "Lines that begin with / are commands; /help lists the commands. A line that ends with \\\n"
    "continues in the next line. With --message, the program sends one message, prints the output\n"
    "and ends. With --message and --json, the program prints one JSON object, as\n"
    "`incipit generate --json` does.\n"
    "\n"
    "Exit code: 0 on success, 1 if the server is not reachable or returns an error, 2 if a flag\n"
    "is wrong.",
    "  incipit chat\n"
    "  incipit chat --system \"You answer in one sentence.\" --temperature 0.7\n"
    "  incipit chat --message \"Tell me a story about a fox.\" --max-tokens 200\n"
    "  echo \"Tell me a story.\" | incipit chat\n"};

constexpr std::string_view kHelp =
    "/system TEXT   start a new conversation with the system message TEXT\n"
    "/system        start a new conversation without a system message\n"
    "/reset         start a new conversation with the same system message\n"
    "/retry         send the last message again and replace its output\n"
    "/history       show the conversation\n"
    "/help          show this list of commands\n"
    "/quit          end the program, like the end of the input\n";

struct ChatOptions {
  ClientOptions client;
  RequestFlags request;
  std::optional<std::string> message, template_arguments;
  std::string system;
  bool json = false;
};

void Bind(Flags& flags, ChatOptions& options) {
  flags.Group("Conversation");
  flags.String({"message", "TEXT", "Send only the message TEXT, print the output and end."},
               options.message);
  flags.String({"system", "TEXT", "System message of the conversation."}, options.system);
  flags.String(
      {"template-arguments", "JSON", "JSON object with the arguments of the chat template."},
      options.template_arguments);
  flags.Group("Output");
  flags.Switch({"json", "", "With --message: print one JSON object when the output is complete."},
               options.json);
  BindClientFlags(flags, options.client);
  options.request.Bind(flags);
}

absl::Status Check(const ChatOptions& options) {
  if (options.json && !options.message) return InvalidArgument("--json needs --message");
  if (options.request.num_choices() != 1 && !options.json) {
    return InvalidArgument("--n is {}; it must be 1 unless --message and --json are set",
                           options.request.num_choices());
  }
  for (const std::string& text : {options.message.value_or(""), options.system}) {
    if (!IsUtf8(text)) return InvalidArgument("a message is not valid UTF-8");
  }
  return absl::OkStatus();
}

class Conversation {
 public:
  explicit Conversation(const ChatOptions& options)
      : options_(options),
        stub_(v1::Inference::NewStub(OpenChannel(options.client))),
        system_(options.system) {}

  // Sends the conversation and the user's `message` to the server. If the gRPC call succeeds, or if
  // the user presses Ctrl-C after output text has arrived, adds `message` and the output to the
  // conversation.
  grpc::Status Ask(std::string message, bool prints, CollectedOutput& output);

  void Reset() { turns_.clear(); }
  void SetSystem(std::string system) {
    system_ = std::move(system);
    Reset();
  }
  // Removes the last user message and its output from the conversation. Returns the removed
  // message, or nullopt if there is none.
  std::optional<std::string> TakeLastMessage();
  std::string History() const;

 private:
  struct Turn {
    std::string message, output;
  };
  v1::ChatRequest MakeRequest(const std::string& message) const;

  const ChatOptions& options_;
  const std::unique_ptr<v1::Inference::Stub> stub_;
  std::string system_;
  std::vector<Turn> turns_;
};

v1::ChatRequest Conversation::MakeRequest(const std::string& message) const {
  v1::ChatRequest request;
  options_.request.Fill(request);
  const auto add = [&](const char* role, const std::string& content) {
    auto& added = *request.add_messages();
    added.set_role(role);
    added.set_content(content);
  };
  if (!system_.empty()) add("system", system_);
  for (const Turn& turn : turns_) {
    add("user", turn.message);
    add("assistant", turn.output);
  }
  add("user", message);
  request.set_template_arguments_json(options_.template_arguments.value_or(""));
  return request;
}

grpc::Status Conversation::Ask(std::string message, bool prints, CollectedOutput& output) {
  grpc::ClientContext context;
  PrepareCall(options_.client, context);
  const Interrupt interrupt([&] { context.TryCancel(); });
  const auto reader = stub_->Chat(&context, MakeRequest(message));
  for (v1::GenerateResponse response; reader->Read(&response);) {
    output.Add(response);
    for (const v1::Delta& delta : response.deltas()) {
      if (prints) Print(stdout, delta.text());
    }
  }
  grpc::Status status = reader->Finish();
  if (prints && output.has_text()) Print(stdout, "\n");
  // If the user pressed Ctrl-C during the output, the conversation keeps the text that had arrived.
  const bool stopped = status.error_code() == grpc::StatusCode::CANCELLED && output.has_text();
  if (status.ok() || stopped) turns_.push_back({std::move(message), output.choices()[0].text});
  return status;
}

std::optional<std::string> Conversation::TakeLastMessage() {
  if (turns_.empty()) return std::nullopt;
  std::string message = std::move(turns_.back().message);
  turns_.pop_back();
  return message;
}

std::string Conversation::History() const {
  const Painter paint(stdout);
  std::string text;
  if (!system_.empty()) text += paint.Cyan("system: ") + system_ + "\n";
  for (const Turn& turn : turns_) {
    text += paint.Cyan("user: ") + turn.message + "\n";
    text += paint.Cyan("assistant: ") + turn.output + "\n";
  }
  return text;
}

// Reads messages and commands from standard input until the end of the input or /quit. Prints input
// prompts and notes only if standard input is a terminal.
class Dialogue {
 public:
  explicit Dialogue(const ChatOptions& options)
      : options_(options),
        conversation_(options),
        is_interactive_(IsTerminal(stdin)),
        paint_(stdout) {}

  int Run() {
    if (is_interactive_) Note("/help lists the commands, /quit ends the program.");
    bool failed = false;
    while (const auto line = ReadMessage()) {
      if (*line == "/quit" || *line == "/exit") break;
      if (line->empty()) continue;
      failed = !Handle(*line) && !is_interactive_;
      if (failed) break;
    }
    return failed ? kExitFailure : kExitOk;
  }

 private:
  // Reads one message from standard input. A line that ends with a backslash continues in the next
  // line. Returns nullopt at the end of the input.
  std::optional<std::string> ReadMessage() {
    std::string message;
    if (is_interactive_) Print(stdout, paint_.Bold("> "));
    for (std::string line; std::getline(std::cin, line);) {
      if (line.ends_with('\r')) line.pop_back();
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.back() = '\n';
      message += line;
      if (!goes_on) return message;
      if (is_interactive_) Print(stdout, paint_.Bold(". "));
    }
    if (message.empty()) return std::nullopt;
    return message;
  }

  // Executes `line` as a command, or sends `line` as a message. Returns false if the message was
  // not sent or the server returned an error.
  bool Handle(const std::string& line) {
    if (!line.starts_with('/')) return Ask(line);
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view command = std::string_view(line).substr(0, space);
    if (command == "/help") {
      Print(stdout, kHelp);
    } else if (command == "/reset") {
      conversation_.Reset();
      Note("A new conversation starts.");
    } else if (command == "/system") {
      conversation_.SetSystem(line.substr(std::min(space + 1, line.size())));
      Note("A new conversation starts with the new system message.");
    } else if (command == "/history") {
      Print(stdout, conversation_.History());
    } else if (command == "/retry") {
      const auto message = conversation_.TakeLastMessage();
      if (message) return Ask(*message);
      Note("There is no message to send again.");
    } else {
      constexpr std::string_view kCommands[] = {"/system",  "/reset", "/retry",
                                                "/history", "/help",  "/quit"};
      const auto nearest = NearestName(command, kCommands);
      Note(fmt::format("{} is not a command; {}", command,
                       nearest ? fmt::format("did you mean {}?", *nearest) : "/help lists them."));
    }
    return true;
  }

  bool Ask(const std::string& message) {
    if (!IsUtf8(message)) {
      ReportFailure(kChatText, "the message is not valid UTF-8");
      return false;
    }
    CollectedOutput output;
    const grpc::Status status = conversation_.Ask(message, true, output);
    if (status.ok()) {
      Note(DescribeUsage(output.usage()));
    } else if (status.error_code() == grpc::StatusCode::CANCELLED) {
      Note("(stopped)");
    } else {
      ReportFailure(kChatText, DescribeError(options_.client, status));
      return false;
    }
    return true;
  }

  void Note(std::string_view text) const {
    if (is_interactive_) Print(stdout, paint_.Dim(text) + "\n");
  }

  const ChatOptions& options_;
  Conversation conversation_;
  const bool is_interactive_;
  const Painter paint_;
};

int ChatOnce(const ChatOptions& options) {
  Conversation conversation(options);
  CollectedOutput output;
  const grpc::Status status = conversation.Ask(*options.message, !options.json, output);
  if (!status.ok()) return ReportFailure(kChatText, DescribeError(options.client, status));
  if (options.json) {
    Print(stdout, JsonLine(output.ToJson(options.request.wants_logprobs(),
                                         options.request.wants_prompt_logprobs())));
  }
  return kExitOk;
}

}  // namespace

int RunChat(std::span<const std::string_view> args) {
  ChatOptions options;
  Flags flags;
  Bind(flags, options);
  if (const auto exit_code = ParseArguments(kChatText, flags, args)) return *exit_code;
  if (const absl::Status status = Check(options); !status.ok())
    return ReportUsage(kChatText, status);
  return options.message ? ChatOnce(options) : Dialogue(options).Run();
}

}  // namespace incipit
