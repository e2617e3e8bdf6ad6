// Answers JSON lines with a tokenizer: a string, or {"text", "add_special_tokens"}, with its ids;
// an array of ids, or {"ids", "skip_special_tokens"}, with their text. What fails is answered with
// {"error": ...}. For the differential test against the reference.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"

namespace incipit {
namespace {

using nlohmann::json;

json Decode(const Tokenizer& tokenizer, const json& ids_json, bool skip_special_tokens) {
  const auto ids = ids_json.get<std::vector<TokenId>>();
  const std::string text = tokenizer.Decode(ids, skip_special_tokens);
  Detokenizer detokenizer(tokenizer, skip_special_tokens, /*after_prompt=*/false);
  std::string streamed;
  for (const TokenId id : ids) streamed += detokenizer.Push(id);
  streamed += detokenizer.Flush();
  if (streamed != text) return {{"error", "the stream differs from the whole"}};
  return text;
}

json Answer(const Tokenizer& tokenizer, const json& request) {
  if (request.is_array()) return Decode(tokenizer, request, false);
  if (request.contains("ids")) {
    return Decode(tokenizer, request["ids"], request.value("skip_special_tokens", false));
  }
  EncodeOptions options;
  if (request.is_object()) options.add_special_tokens = request.value("add_special_tokens", true);
  const json& text = request.is_object() ? request.at("text") : request;
  const auto ids = tokenizer.Encode(text.get<std::string>(), options);
  if (!ids.ok()) return {{"error", MessageOf(ids.status())}};
  return *ids;
}

int Run(const char* folder) {
  const auto tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", MessageOf(tokenizer.status()).c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::puts(Answer(**tokenizer, json::parse(line)).dump().c_str());
  }
  return 0;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) { return argc == 2 ? incipit::Run(argv[1]) : 2; }
