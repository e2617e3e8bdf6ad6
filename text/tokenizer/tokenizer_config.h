// Reads the files beside tokenizer.json that describe special tokens and chat templates.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "base/json/json.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

inline constexpr size_t kChatTemplateBytesMax = 1 << 20;

// Limits for each JSON file of a tokenizer. The number of values is limited only by the size of the
// file, because vocabularies are large.
inline constexpr JsonLimits kTokenizerJsonLimits = {.bytes_max = size_t{256} << 20,
                                                    .values_max = int64_t{256} << 20,
                                                    .depth_max = 32,
                                                    .duplicate_keys = DuplicateKeys::kLastCounts};

// Reads the following files of `folder`, if they exist, as the Hugging Face library transformers
// does:
// - tokenizer_config.json: bos_token and other named tokens, extra_special_tokens,
//   additional_special_tokens, chat_template;
// - special_tokens_map.json: the same keys for tokens, read only if tokenizer_config.json lacks the
//   key added_tokens_decoder (an old format);
// - chat_template.jinja and additional_chat_templates/tool_use.jinja: if one of them exists, both
//   templates of tokenizer_config.json are ignored.
// Returns INVALID_ARGUMENT with the file and the fault if a file is wrong.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder);

}  // namespace incipit
