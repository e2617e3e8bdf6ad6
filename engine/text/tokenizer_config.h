// Reads what stands beside tokenizer.json.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace incipit {

inline constexpr size_t kChatTemplateBytesMax = 1 << 20;

// From tokenizer_config.json and chat_template.jinja of a folder, where they are; the latter's
// template wins. INVALID_ARGUMENT naming the file and what is wrong in it.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& folder);

}  // namespace incipit
