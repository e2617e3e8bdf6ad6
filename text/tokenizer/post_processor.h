// What is put around an encoded text, such as a token for its beginning.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"

namespace incipit {

// Tokens in order; one without a value stands for the whole text.
using TextTemplate = std::vector<std::optional<TokenId>>;

struct PostProcessing {
  TextTemplate with_special_tokens = {std::nullopt};
  TextTemplate without_special_tokens = {std::nullopt};
};

// `fields` is the object `post_processor`. UNIMPLEMENTED for a type that is not supported.
absl::StatusOr<PostProcessing> CreatePostProcessing(const JsonFields& fields);

}  // namespace incipit
