// Reads what stands beside tokenizer.json.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

inline constexpr size_t kChatTemplateBytesMax = 1 << 20;

// As transformers reads a folder, from the files that are there:
// - tokenizer_config.json, and special_tokens_map.json where the former is of the old kind that
// does
//   not list its added tokens: bos_token and the others that have a name, extra_special_tokens,
//   additional_special_tokens, chat_template;
// - chat_template.jinja and additional_chat_templates/tool_use.jinja, which replace the templates
//   of tokenizer_config.json.
// INVALID_ARGUMENT naming the file and what is wrong in it.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder);

}  // namespace incipit
