// Post-processors of a tokenizer add special tokens to the tokens of a text, such as a token at the
// beginning of the text.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"

namespace incipit {

// A list of items, from which the list of output tokens is made. An item with a value is one token.
// An item without a value stands for all tokens of the text.
using TextTemplate = std::vector<std::optional<TokenId>>;

struct PostProcessing {
  TextTemplate with_special_tokens = {std::nullopt};
  TextTemplate without_special_tokens = {std::nullopt};
};

// Creates the templates from `fields`, the object `post_processor` of a tokenizer.json. Returns
// UNIMPLEMENTED if the type of a processor is not supported.
absl::StatusOr<PostProcessing> CreatePostProcessing(const JsonFields& fields);

}  // namespace incipit
