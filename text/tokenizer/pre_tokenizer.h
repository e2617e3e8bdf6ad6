// Splits a normalized text into words; the model encodes each word separately.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

struct Word {
  std::string_view text;
  // Number of bytes at the start of `text` that were made from the first character of the original
  // text.
  size_t from_first_character = 0;

  Word Part(size_t begin, size_t end) const {
    return {
        .text = text.substr(begin, end - begin),
        .from_first_character = from_first_character > begin ? from_first_character - begin : 0};
  }
};
// Receives the parts of a word. The text of a part is valid only until the sink returns.
using WordSink = absl::FunctionRef<absl::Status(const Word&)>;

// One step of splitting. Immutable; Split() is thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Passes the parts of `word` to `sink` in order; a part may be empty. Stops at the first error
  // that `sink` returns. Returns INVALID_ARGUMENT if matching a regular expression exceeds its
  // limits.
  virtual absl::Status Split(const Word& word, WordSink sink) const = 0;
  // Returns false if every byte of a word is in one of the parts of the word.
  virtual bool DropsText() const { return true; }
};

// The steps of a pre-tokenizer. Each step splits the parts that the previous step made.
struct PreTokenization {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  // True if the last step replaces bytes by characters of the byte alphabet. `steps` then omits
  // that step, and the model receives the bytes.
  bool words_are_bytes = false;
  // True if a step needs to know whether a word is the first word of the text.
  bool needs_origins = false;

  absl::Status Split(const Word& word, WordSink sink) const;
  bool DropsText() const;
};

// Creates the steps from `fields`, the object `pre_tokenizer`. Returns UNIMPLEMENTED for an
// unsupported type.
absl::StatusOr<PreTokenization> CreatePreTokenization(const JsonFields& fields);
// Adds the omitted step that replaces bytes by characters of the byte alphabet. Used if the model
// cannot receive bytes.
void AppendByteCharacterStep(PreTokenization& pre_tokenization);

}  // namespace incipit
