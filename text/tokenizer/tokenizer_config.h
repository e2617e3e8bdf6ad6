// Reads special tokens and chat templates from the files of a model folder other than
// tokenizer.json.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "base/json/json.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

inline constexpr size_t kChatTemplateBytesMax = 1 << 20;

// Limits for the JSON files of a tokenizer. A file with many values, such as a vocabulary, reaches
// the limit `bytes_max` before `values_max`.
inline constexpr JsonLimits kTokenizerJsonLimits = {.bytes_max = size_t{256} << 20,
                                                    .values_max = int64_t{256} << 20,
                                                    .depth_max = 32,
                                                    .duplicate_keys = DuplicateKeys::kLastCounts};

// Reads the following files in `folder`, if they exist, in the same way as the Hugging Face library
// transformers:
// - tokenizer_config.json: named special tokens such as bos_token, extra_special_tokens,
//   additional_special_tokens, and chat_template.
// - special_tokens_map.json: special tokens. Read only if tokenizer_config.json does not have the
//   key added_tokens_decoder.
// - chat_template.jinja and additional_chat_templates/tool_use.jinja: chat templates. If one of
//   these files exists, the chat templates in tokenizer_config.json are ignored.
//
// Returns INVALID_ARGUMENT if a file is not valid. The error message names the file and the error.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder);

}  // namespace incipit
