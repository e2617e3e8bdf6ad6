// Splits a normalized text into the words that the model encodes one by one.
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
  // How many bytes at its start come from the first character of the original text.
  size_t from_first_character = 0;

  Word Part(size_t begin, size_t end) const {
    return {
        .text = text.substr(begin, end - begin),
        .from_first_character = from_first_character > begin ? from_first_character - begin : 0};
  }
};
// What it receives lives until it returns.
using WordSink = absl::FunctionRef<absl::Status(const Word&)>;

// One step. Immutable; Split is thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // The parts of a word, in order; parts may be empty. Stops with the first error of `sink`.
  // INVALID_ARGUMENT if a regular expression gives up on the text.
  virtual absl::Status Split(const Word& word, WordSink sink) const = 0;
  // False if every byte of a word is in one of its parts.
  virtual bool DropsText() const { return true; }
};

// The steps of a tokenizer, each applied to the parts that the one before it made.
struct PreTokenization {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  // The last step turned bytes into the characters of the byte alphabet. It is left out of `steps`:
  // the model takes the bytes.
  bool words_are_bytes = false;
  // A step asks whether a word is the first of the text.
  bool needs_origins = false;

  absl::Status Split(const Word& word, WordSink sink) const;
  bool DropsText() const;
};

// `fields` is the object `pre_tokenizer`. UNIMPLEMENTED for a type that is not supported.
absl::StatusOr<PreTokenization> CreatePreTokenization(const JsonFields& fields);
// For a model that cannot take bytes: puts the step that was left out back.
void AppendByteCharacterStep(PreTokenization& pre_tokenization);

}  // namespace incipit
