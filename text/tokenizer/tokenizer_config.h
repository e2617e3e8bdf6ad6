// Reads what stands beside tokenizer.json.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "base/json/json.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

inline constexpr size_t kChatTemplateBytesMax = 1 << 20;

// Of each file of a tokenizer. Vocabularies have as many values as fit.
inline constexpr JsonLimits kTokenizerJsonLimits = {.bytes_max = size_t{256} << 20,
                                                    .values_max = int64_t{256} << 20,
                                                    .depth_max = 32,
                                                    .duplicate_keys = DuplicateKeys::kLastCounts};

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
