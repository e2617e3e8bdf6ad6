// All parts of a tokenizer: normalizer, pre-tokenizer, BPE model, added tokens, post-processor and
// decoder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/tokenizer/added_vocabulary.h"
#include "text/tokenizer/bpe_encoder.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// Contains all parts of one tokenizer, and encodes texts with them. Immutable.
class Tokenizer::Pipeline {
 public:
  struct Parts {
    std::unique_ptr<const Normalizer> normalizer;  // null if the tokenizer has no normalizer
    PreTokenization pre_tokenization;
    BpeModel model;
    AddedVocabulary added;
    PostProcessing post_processing;
    TokenDecoder decoder;
    TokenizerConfig config;
  };

  explicit Pipeline(Parts parts);

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const;
  // Returns the text of token `id` in the vocabulary. Returns null for an unknown id and, if
  // `skip_special_tokens` is set, for a special token.
  const std::string* TokenToDecode(TokenId id, bool skip_special_tokens) const {
    if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return nullptr;
    return skip_special_tokens && has_special_text_[id] ? nullptr : tokens_[id];
  }
  const Parts& parts() const { return parts_; }
  // Returns the value of Tokenizer::token_bytes_max().
  std::optional<size_t> token_bytes_max() const { return token_bytes_max_; }

 private:
  class Encoding;
  std::optional<size_t> FindTokenBytesMax() const;

  Parts parts_;
  // tokens_[id] is the text of token `id` in the vocabulary, or null if the id is unknown.
  std::vector<const std::string*> tokens_;
  // has_special_text_[id] is true if the text of token `id` is also the text of a special token.
  std::vector<bool> has_special_text_;
  std::optional<size_t> token_bytes_max_;
};

}  // namespace incipit
