#include "text/tokenizer/detokenizer.h"

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/tokenizer_pipeline.h"

namespace incipit {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool after_prompt)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      decoding_(std::make_unique<TokenDecoding>(tokenizer.pipeline_->parts().decoder.steps,
                                                after_prompt)) {}

Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::Push(TokenId id) {
  const std::string* token = tokenizer_->pipeline_->TokenToDecode(id, skip_special_tokens_);
  if (token == nullptr) return "";
  decoding_->Add(*token);
  return decoding_->Take();
}

std::string Detokenizer::Flush() {
  decoding_->Finish();
  return decoding_->Take();
}

}  // namespace incipit
