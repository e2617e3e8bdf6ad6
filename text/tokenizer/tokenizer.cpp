#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/tokenizer_pipeline.h"

namespace incipit {

Tokenizer::Tokenizer(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                                       const EncodeOptions& options) const {
  return pipeline_->Encode(text, options);
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  TokenDecoding decoding(pipeline_->parts().decoder.steps, /*is_continued=*/false);
  for (const TokenId id : ids) {
    const std::string* token = pipeline_->TokenToDecode(id, skip_special_tokens);
    if (token != nullptr) decoding.Add(*token);
  }
  decoding.Finish();
  return decoding.Take();
}

std::string Tokenizer::TokenBytes(TokenId id) const {
  const std::string* token = pipeline_->TokenToDecode(id, /*skip_special_tokens=*/false);
  if (token == nullptr) return "";
  const TokenDecoder& decoder = pipeline_->parts().decoder;
  if (decoder.is_byte_level) return BytesOfCharacters(*token).value_or(*token);
  const int byte = decoder.has_byte_fallback ? ByteOfFallbackToken(*token) : -1;
  if (byte >= 0) return std::string(1, static_cast<char>(byte));
  TokenDecoding decoding(decoder.steps, /*is_continued=*/true);
  decoding.Add(*token);
  decoding.Finish();
  return decoding.Take();
}

size_t Tokenizer::TokenLength(TokenId id) const {
  const std::string* token = pipeline_->TokenToDecode(id, /*skip_special_tokens=*/false);
  return token == nullptr ? 0 : token->size();
}

int32_t Tokenizer::vocab_size() const {
  const Pipeline::Parts& parts = pipeline_->parts();
  return std::max(parts.model.id_end(), parts.added.id_end());
}

std::optional<size_t> Tokenizer::token_bytes_max() const { return pipeline_->token_bytes_max(); }

bool Tokenizer::IsSpecial(TokenId id) const { return pipeline_->parts().added.IsSpecial(id); }

std::optional<TokenId> Tokenizer::IdOf(std::string_view token) const {
  const auto added = pipeline_->parts().added.IdOf(token);
  return added ? added : pipeline_->parts().model.IdOf(token);
}

const TokenizerConfig& Tokenizer::config() const { return pipeline_->parts().config; }

}  // namespace incipit
