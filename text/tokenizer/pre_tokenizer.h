// Pre-tokenizers split a normalized text into words. The BPE model encodes each word separately.
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
  // text. 0 if `text` begins at a later character.
  size_t from_first_character = 0;

  Word Part(size_t begin, size_t end) const {
    return {
        .text = text.substr(begin, end - begin),
        .from_first_character = from_first_character > begin ? from_first_character - begin : 0};
  }
};
// Receives one part of a word in each call. The text of the part is valid only during the call.
using WordSink = absl::FunctionRef<absl::Status(const Word&)>;

// One step of a pre-tokenizer, which splits a word into smaller parts. Immutable. Split() is
// thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Splits `word`, and passes the parts to `sink` from left to right. A part may be empty. Returns
  // the first error of `sink`. Returns INVALID_ARGUMENT if a regular expression takes too many
  // steps on `word`.
  virtual absl::Status Split(const Word& word, WordSink sink) const = 0;
  // Returns true if Split() may remove bytes of a word.
  virtual bool DropsText() const { return true; }
};

// All steps of a pre-tokenizer. Each step splits the parts from the previous step.
struct PreTokenization {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  // True if the BPE model receives words as bytes, instead of characters that stand for bytes
  // (byte_alphabet.h).
  bool words_are_bytes = false;
  // True if a step treats the first word of the text differently from the other words.
  bool needs_origins = false;

  absl::Status Split(const Word& word, WordSink sink) const;
  bool DropsText() const;
};

// Creates the steps from `fields`, the object `pre_tokenizer` of a tokenizer.json. Returns
// UNIMPLEMENTED for an unsupported type of step.
absl::StatusOr<PreTokenization> CreatePreTokenization(const JsonFields& fields);
// Appends a step that converts each byte to the character that stands for it (byte_alphabet.h), and
// sets words_are_bytes to false. Used if the BPE model accepts only text.
void AppendByteCharacterStep(PreTokenization& pre_tokenization);

}  // namespace incipit
