// What happens to a text before it is split: Unicode normal forms, replaced and added characters.
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

// A text and, where asked for, where each of its bytes comes from.
struct NormalizedText {
  std::string text;
  // Per byte: the byte of the original text at which the character begins that this one replaces or
  // was added to. Empty if nobody asked.
  std::vector<uint32_t> origins;

  static NormalizedText Of(std::string_view text, bool with_origins);
  // Builds the next text from pieces of this one; each knows its origin.
  class Rewriter;
};

// One step or a sequence of them. Immutable; Apply is thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // INVALID_ARGUMENT if a regular expression gives up on the text. REQUIRES: valid UTF-8.
  virtual absl::Status Apply(NormalizedText& text) const = 0;
  // The most bytes of a text that become one byte; nothing if there is no bound.
  virtual std::optional<size_t> ShrinksBy() const { return std::nullopt; }
};

// `fields` is one normalizer's object. UNIMPLEMENTED for a type that is not supported.
absl::StatusOr<std::unique_ptr<const Normalizer>> CreateNormalizer(const JsonFields& fields);

}  // namespace incipit
