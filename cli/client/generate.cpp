#include "cli/client/generate.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/flags.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "cli/client/client.h"
#include "cli/client/collected_output.h"
#include "cli/client/request_flags.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "incipit/v1/admin.grpc.pb.h"
#include "incipit/v1/inference.grpc.pb.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr CommandText kGenerateText = {
    "generate", "--prompt TEXT | --prompt-ids 1,2,3 | --prompt-file FILE [flags]",
    "Continues a prompt and prints the output as it arrives. If the model has no tokenizer, the\n"
    "output is a list of token ids, separated by commas. With several choices (--n), the choices\n"
    "are printed when all choices are complete.\n"
    "\n"
    "--json prints one JSON object with text, token_ids, finish_reason (stop or length), logprobs\n"
    "(null unless requested) and usage (numbers of tokens, cache hits and times in\n"
    "milliseconds). With --n, the key choices contains the text and other data of each choice.\n"
    "\n"
    "Exit code: 0 on success, 1 if the server is not reachable or returns an error, 2 if a flag\n"
    "is wrong.",
    "  incipit generate --prompt \"Once upon a time\" --max-tokens 100\n"
    "  incipit generate --prompt \"Once upon a time\" --temperature 0.7 --seed 1 --n 3\n"
    "  incipit generate --prompt-ids 1,403,407 --temperature 0 --json\n"
    "  incipit generate --prompt-file story.txt --stop \"The end\" --logprobs 3 --json\n"};

struct GenerateOptions {
  ClientOptions client;
  RequestFlags request;
  std::optional<std::string> prompt, prompt_ids, prompt_file;
  bool json = false, usage = false;
};

void Bind(Flags& flags, GenerateOptions& options) {
  flags.Group("Prompt");
  flags.String({"prompt", "TEXT", "Text of the prompt."}, options.prompt);
  flags.String({"prompt-ids", "1,2,3", "Token ids of the prompt. No special tokens are added."},
               options.prompt_ids);
  flags.String({"prompt-file", "FILE", "File that contains the prompt; - is standard input."},
               options.prompt_file);
  flags.Group("Output");
  flags.Switch({"json", "", "Print one JSON object when the output is complete."}, options.json);
  flags.Switch(
      {"usage", "", "Print token counts and times to stderr, even if stderr is not a terminal."},
      options.usage);
  BindClientFlags(flags, options.client);
  options.request.Bind(flags);
}

// Maximum size of the file of --prompt-file: the largest value of the server's flag
// --message-bytes-max.
constexpr size_t kPromptFileBytesMax = size_t{1} << 30;

// Returns the text of the file `path`, or of stdin if `path` is "-". The error is never
// INVALID_ARGUMENT, because a file that cannot be read is not a wrong flag.
absl::StatusOr<std::string> ReadPrompt(const std::string& path) {
  absl::StatusOr<std::string> text =
      ReadTextInput(path == "-" ? "/dev/stdin" : path, kPromptFileBytesMax);
  if (!text.ok()) return Annotate(text.status(), "--prompt-file");
  return text;
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options) {
  const int num_prompts =
      options.prompt.has_value() + options.prompt_ids.has_value() + options.prompt_file.has_value();
  if (num_prompts != 1) {
    return InvalidArgument(
        "{} of --prompt, --prompt-ids and --prompt-file were given; exactly 1 must be given",
        num_prompts);
  }
  v1::GenerateRequest request;
  options.request.Fill(request);
  if (options.prompt_ids) {
    const auto ids = ParseTokenIds(*options.prompt_ids);
    if (!ids.ok()) return InvalidArgument("--prompt-ids {}", MessageOf(ids.status()));
    request.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
    return request;
  }
  if (options.prompt) {
    request.set_text(*options.prompt);
  } else {
    INCIPIT_ASSIGN_OR_RETURN(*request.mutable_text(), ReadPrompt(*options.prompt_file));
  }
  if (!IsUtf8(request.text())) return InvalidArgument("the prompt is not valid UTF-8");
  return request;
}

// Returns true if the server has a tokenizer. First calls GetModelInfo. If GetModelInfo fails,
// calls Tokenize, which fails if the server has no tokenizer.
bool ServesText(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  PrepareCall(options, context);
  v1::GetModelInfoResponse info;
  const auto stub = v1::Admin::NewStub(channel);
  const grpc::Status status = stub->GetModelInfo(&context, v1::GetModelInfoRequest(), &info);
  if (status.ok()) return info.has_tokenizer();
  grpc::ClientContext other_context;
  PrepareCall(options, other_context);
  v1::TokenizeRequest request;
  request.set_text("a");
  v1::TokenizeResponse response;
  return v1::Inference::NewStub(channel)->Tokenize(&other_context, request, &response).ok();
}

std::string JoinIds(const google::protobuf::RepeatedField<uint32_t>& ids, bool is_first) {
  if (ids.empty()) return {};
  return fmt::format("{}{}", is_first ? "" : ",", fmt::join(ids, ","));
}

// Prints the text or the token ids in `response`. `before` is the output that has arrived before
// `response`. REQUIRES: the request has only one choice (output).
void PrintPiece(const v1::GenerateResponse& response, bool as_ids, const CollectedOutput& before) {
  for (const v1::Delta& delta : response.deltas()) {
    Print(stdout, as_ids ? JoinIds(delta.token_ids(), before.choices()[0].token_ids.empty())
                         : delta.text());
  }
}

void PrintChoices(const CollectedOutput& output, bool as_ids) {
  const Painter paint(stdout);
  for (size_t i = 0; i < output.choices().size(); ++i) {
    const CollectedOutput::Choice& choice = output.choices()[i];
    const std::string body =
        as_ids ? fmt::format("{}", fmt::join(choice.token_ids, ",")) : choice.text;
    Print(stdout, fmt::format("{}\n{}\n", paint.Cyan(fmt::format("--- choice {}", i)), body));
  }
}

int Generate(const GenerateOptions& options, const v1::GenerateRequest& request) {
  const auto channel = OpenChannel(options.client);
  const bool as_ids = request.has_token_ids() && !ServesText(options.client, channel);
  const bool streams = !options.json && options.request.num_choices() == 1;
  const auto stub = v1::Inference::NewStub(channel);
  grpc::ClientContext context;
  PrepareCall(options.client, context);
  const auto reader = stub->Generate(&context, request);
  CollectedOutput output;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    if (streams) PrintPiece(response, as_ids, output);
    output.Add(response);
  }
  if (streams && !output.choices()[0].token_ids.empty()) Print(stdout, "\n");
  if (const grpc::Status status = reader->Finish(); !status.ok()) {
    return ReportFailure(kGenerateText, DescribeError(options.client, status));
  }
  if (options.json) {
    Print(stdout, JsonLine(output.ToJson(options.request.wants_logprobs(),
                                         options.request.wants_prompt_logprobs())));
  } else if (!streams) {
    PrintChoices(output, as_ids);
  }
  if (!options.json && (options.usage || IsTerminal(stderr))) {
    Print(stderr, Painter(stderr).Dim(DescribeUsage(output.usage())) + "\n");
  }
  return kExitOk;
}

}  // namespace

int RunGenerate(std::span<const std::string_view> args) {
  GenerateOptions options;
  Flags flags;
  Bind(flags, options);
  if (const auto exit_code = ParseArguments(kGenerateText, flags, args)) return *exit_code;
  const auto request = MakeRequest(options);
  if (request.ok()) return Generate(options, *request);
  // Only a wrong flag is INVALID_ARGUMENT. Other errors come from the file of --prompt-file.
  return absl::IsInvalidArgument(request.status())
             ? ReportUsage(kGenerateText, request.status())
             : ReportFailure(kGenerateText, MessageOf(request.status()));
}

}  // namespace incipit
