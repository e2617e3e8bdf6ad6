// Normalizes a text before the text is split: Unicode normal forms, replaced and added characters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// A text and, if requested, the origin of each of its bytes in the original text.
struct NormalizedText {
  std::string text;
  // For each byte of `text`: the offset in the original text of the character that the byte
  // replaces or was added to. Empty if origins were not requested.
  std::vector<uint32_t> origins;

  static NormalizedText Of(std::string_view text, bool with_origins);
  // Builds a changed text from pieces of a NormalizedText and keeps the origin of each piece.
  class Rewriter;
};

// One normalizer, or a sequence of normalizers. Immutable; Apply() is thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Normalizes `text` in place. Returns INVALID_ARGUMENT if matching a regular expression exceeds
  // its limits. REQUIRES: `text` is valid UTF-8.
  virtual absl::Status Apply(NormalizedText& text) const = 0;
  // Returns the maximum number of bytes of a text that become one byte. Returns nothing if there is
  // no limit.
  virtual std::optional<size_t> ShrinksBy() const { return std::nullopt; }
};

// Creates a normalizer from `fields`, the object of the normalizer in tokenizer.json. Returns
// UNIMPLEMENTED for an unsupported type.
absl::StatusOr<std::unique_ptr<const Normalizer>> CreateNormalizer(const JsonFields& fields);

}  // namespace incipit
