// Adds tokens around an encoded text, such as a token for the beginning of the text.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"

namespace incipit {

// A list of tokens in order. An item without a value stands for the tokens of the whole text.
using TextTemplate = std::vector<std::optional<TokenId>>;

struct PostProcessing {
  TextTemplate with_special_tokens = {std::nullopt};
  TextTemplate without_special_tokens = {std::nullopt};
};

// Creates the templates from `fields`, the object `post_processor`. Returns UNIMPLEMENTED for an
// unsupported type.
absl::StatusOr<PostProcessing> CreatePostProcessing(const JsonFields& fields);

}  // namespace incipit
