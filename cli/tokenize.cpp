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
    "Converts text to token ids, without a server. Each input line is a JSON string or an\n"
    "object {\"text\": ..., \"add_special_tokens\": ...}. If add_special_tokens is true (the\n"
    "default), the tokenizer adds its special tokens, such as BOS. Each output line is an array\n"
    "of ids, or {\"error\": ...} if the input line is wrong.\n"
    "\n"
    "Exit codes: 0 success, 1 the tokenizer cannot be loaded or the input cannot be read, 2 a\n"
    "flag is wrong.",
    "  echo '\"Once upon a time\"' | incipit tokenize --tokenizer models/incipit-tiny\n"
    "  echo '{\"text\": \"Hi\", \"add_special_tokens\": false}' | incipit tokenize --tokenizer "
    "DIR\n"};

constexpr CommandText kDetokenizeText = {
    "detokenize", "--tokenizer DIR < LINES",
    "Converts token ids to text, without a server: the reverse of `incipit tokenize`. Each\n"
    "input line is an array of ids or an object {\"ids\": ..., \"skip_special_tokens\": ...}. If\n"
    "skip_special_tokens is true (the default), the text does not contain special tokens, such\n"
    "as the BOS that `incipit tokenize` adds. Each output line is a JSON string, or {\"error\":\n"
    "...} if the input line is wrong. Bytes that are not UTF-8 become U+FFFD.\n"
    "\n"
    "Exit codes: 0 success, 1 the tokenizer cannot be loaded or the input cannot be read, 2 a\n"
    "flag is wrong.",
    "  echo '[1, 403, 407]' | incipit detokenize --tokenizer models/incipit-tiny\n"
    "  echo '{\"ids\": [1, 403], \"skip_special_tokens\": false}' | incipit detokenize --tokenizer "
    "DIR\n"};

// Returns the boolean value of `key` in the JSON object `object`, or `fallback` if `object` does
// not have the key.
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
      return InvalidArgument("unknown key \"{}\"; the known keys are {} and {}", key.substr(0, 80),
                             first, second);
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
    return InvalidArgument(
        "a line must be a JSON string, or an object with a string under the key text");
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
    return InvalidArgument(
        "a line must be an array of token ids, or an object with an array under the key ids");
  }
  std::vector<TokenId> tokens;
  for (const ordered_json& id : *ids) {
    constexpr int64_t kIdMax = std::numeric_limits<TokenId>::max();
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kIdMax) {
      return InvalidArgument("ids[{}] is not a token id; a token id is a whole number from 0 to {}",
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
  flags.String({"tokenizer", "DIR", "Folder with tokenizer.json."}, folder);
  if (const auto exit_code = ParseArguments(text, flags, args)) return *exit_code;
  if (folder.empty()) return ReportUsage(text, InvalidArgument("--tokenizer DIR is missing"));
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
