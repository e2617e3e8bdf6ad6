#include "cli/tokenize.h"

#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/flags.h"
#include "base/status.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

constexpr CommandText kTokenizeText = {
    "tokenize", "--tokenizer DIR < LINES",
    "Turns text into token ids, without a server. Each line of the input is a JSON string, or an\n"
    "object {\"text\": ..., \"add_special_tokens\": ...} (default true: what the tokenizer adds, "
    "such\n"
    "as BOS, is added); each line of the output is an array of ids, or {\"error\": ...} for a line "
    "that\n"
    "is wrong.\n"
    "\n"
    "Exit code: 0, 1 if the tokenizer cannot be loaded or the input cannot be read, 2 if a flag "
    "is\n"
    "wrong.",
    "  echo '\"Once upon a time\"' | incipit tokenize --tokenizer models/incipit-tiny\n"
    "  echo '{\"text\": \"Hi\", \"add_special_tokens\": false}' | incipit tokenize --tokenizer "
    "DIR\n"};

constexpr CommandText kDetokenizeText = {
    "detokenize", "--tokenizer DIR < LINES",
    "Turns token ids into text, without a server: the reverse of `incipit tokenize`. Each line of "
    "the\n"
    "input is an array of ids, or an object {\"ids\": ..., \"skip_special_tokens\": ...} (default "
    "true:\n"
    "special tokens, such as the BOS that `tokenize` adds, do not appear); each line of the output "
    "is\n"
    "a JSON string, or {\"error\": ...} for a line that is wrong. Bytes that are no UTF-8 become\n"
    "U+FFFD.\n"
    "\n"
    "Exit code: 0, 1 if the tokenizer cannot be loaded or the input cannot be read, 2 if a flag "
    "is\n"
    "wrong.",
    "  echo '[1, 403, 407]' | incipit detokenize --tokenizer models/incipit-tiny\n"
    "  echo '{\"ids\": [1, 403], \"skip_special_tokens\": false}' | incipit detokenize --tokenizer "
    "DIR\n"};

// A flag of an object, or `fallback` where it says nothing.
absl::StatusOr<bool> BoolOf(const ordered_json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if (!found->is_boolean()) return InvalidArgument("{} must be true or false", key);
  return found->get<bool>();
}

absl::Status CheckKeys(const ordered_json& object, std::string_view first,
                       std::string_view second) {
  for (const auto& [key, value] : object.items()) {
    if (key != first && key != second) {
      return InvalidArgument("unknown key \"{}\"; {} and {} are known", key.substr(0, 80), first,
                             second);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ordered_json> TokenizeLine(const Tokenizer& tokenizer, const ordered_json& line) {
  EncodeOptions options;
  const ordered_json* text = &line;
  if (line.is_object()) {
    INCIPIT_RETURN_IF_ERROR(CheckKeys(line, "text", "add_special_tokens"));
    if (!line.contains("text")) return InvalidArgument("text is missing");
    text = &line["text"];
    INCIPIT_ASSIGN_OR_RETURN(options.add_special_tokens, BoolOf(line, "add_special_tokens", true));
  }
  if (!text->is_string()) {
    return InvalidArgument("a line must be a string, or an object whose text is a string");
  }
  INCIPIT_ASSIGN_OR_RETURN(const auto ids,
                           tokenizer.Encode(text->get_ref<const std::string&>(), options));
  return ordered_json(ids);
}

absl::StatusOr<ordered_json> DetokenizeLine(const Tokenizer& tokenizer, const ordered_json& line) {
  const ordered_json* ids = &line;
  bool skip_special_tokens = true;
  if (line.is_object()) {
    INCIPIT_RETURN_IF_ERROR(CheckKeys(line, "ids", "skip_special_tokens"));
    if (!line.contains("ids")) return InvalidArgument("ids is missing");
    ids = &line["ids"];
    INCIPIT_ASSIGN_OR_RETURN(skip_special_tokens, BoolOf(line, "skip_special_tokens", true));
  }
  if (!ids->is_array()) {
    return InvalidArgument("a line must be an array of ids, or an object whose ids are one");
  }
  std::vector<TokenId> tokens;
  for (const ordered_json& id : *ids) {
    constexpr int64_t kIdMax = std::numeric_limits<TokenId>::max();
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kIdMax) {
      return InvalidArgument("ids[{}] is no token id; it must be a whole number from 0 to {}",
                             tokens.size(), kIdMax);
    }
    tokens.push_back(id.get<TokenId>());
  }
  return ordered_json(tokenizer.Decode(tokens, skip_special_tokens));
}

using LineFunction = absl::StatusOr<ordered_json> (*)(const Tokenizer&, const ordered_json&);

int RunWithTokenizer(const CommandText& text, std::span<const std::string_view> args,
                     LineFunction function) {
  std::string folder;
  Flags flags;
  flags.String({"tokenizer", "DIR", "A folder with tokenizer.json."}, folder);
  if (const auto exit_code = ParseArguments(text, flags, args)) return *exit_code;
  if (folder.empty()) return ReportUsage(text, InvalidArgument("--tokenizer DIR is needed"));
  const auto tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) return ReportFailure(text, MessageOf(tokenizer.status()));
  return RunJsonLines(text, [&](const ordered_json& line) { return function(**tokenizer, line); });
}

}  // namespace

int RunTokenize(std::span<const std::string_view> args) {
  return RunWithTokenizer(kTokenizeText, args, &TokenizeLine);
}

int RunDetokenize(std::span<const std::string_view> args) {
  return RunWithTokenizer(kDetokenizeText, args, &DetokenizeLine);
}

}  // namespace incipit
