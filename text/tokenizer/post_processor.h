// Post-processors of a tokenizer add special tokens to an encoded text, such as a token at the
// beginning.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"

namespace incipit {

// A template for the encoding of a text. An item with a value is one special token. An item without
// a value stands for all tokens of the text.
using TextTemplate = std::vector<std::optional<TokenId>>;

struct PostProcessing {
  TextTemplate with_special_tokens = {std::nullopt};
  TextTemplate without_special_tokens = {std::nullopt};
};

// Creates the templates from `fields`, the object `post_processor` of a tokenizer.json. Returns
// UNIMPLEMENTED for an unsupported type of post-processor.
absl::StatusOr<PostProcessing> CreatePostProcessing(const JsonFields& fields);

}  // namespace incipit
