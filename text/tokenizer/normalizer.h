// Normalizers change the text before the tokenizer splits the text into words. Examples are Unicode
// normal forms and the replacement of characters.
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

// A text that normalizers change. `origins` can map each byte of the text to its origin in the
// original text.
struct NormalizedText {
  std::string text;
  // The origin of each byte of `text`. A byte is made from one character of the original text, and
  // origins[i] is the byte offset of this character. Empty if no step of the tokenizer needs the
  // origins.
  std::vector<uint32_t> origins;

  static NormalizedText Of(std::string_view text, bool with_origins);
  // Builds a changed copy of a NormalizedText, together with the origins of its bytes.
  class Rewriter;
};

// Changes a text before it is split into words, in one or several steps. Immutable. Apply() is
// thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Normalizes `text` in place. Returns INVALID_ARGUMENT if a regular expression takes too many
  // steps on `text`. REQUIRES: `text` is valid UTF-8.
  virtual absl::Status Apply(NormalizedText& text) const = 0;
  // Returns a number n such that the normalizer never replaces more than n bytes by one byte.
  // Returns nothing if no such number is known.
  virtual std::optional<size_t> ShrinksBy() const { return std::nullopt; }
};

// Creates a normalizer from `fields`, a normalizer object in tokenizer.json. Returns UNIMPLEMENTED
// for an unsupported type.
absl::StatusOr<std::unique_ptr<const Normalizer>> CreateNormalizer(const JsonFields& fields);

}  // namespace incipit
