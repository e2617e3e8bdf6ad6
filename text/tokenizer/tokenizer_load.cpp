// Builds a Tokenizer from the tokenizer files in a model's folder.
#include <filesystem>
#include <string>
#include <utility>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "text/tokenizer/tokenizer_config.h"
#include "text/tokenizer/tokenizer_pipeline.h"

namespace incipit {
namespace {

absl::StatusOr<std::optional<JsonFields>> Section(const JsonFields& file, const char* name) {
  const nlohmann::json* json = file.Find(name);
  if (json == nullptr) return std::optional<JsonFields>();
  INCIPIT_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(*json, name));
  return std::optional(std::move(fields));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Build(std::string_view tokenizer_json,
                                                            TokenizerConfig config) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json json,
                           ParseJsonObject(tokenizer_json, kTokenizerJsonLimits));
  const JsonFields file(json);
  INCIPIT_ASSIGN_OR_RETURN(const auto normalizer_json, Section(file, "normalizer"));
  INCIPIT_ASSIGN_OR_RETURN(const auto pre_tokenizer_json, Section(file, "pre_tokenizer"));
  INCIPIT_ASSIGN_OR_RETURN(const auto model_json, Section(file, "model"));
  INCIPIT_ASSIGN_OR_RETURN(const auto post_processor_json, Section(file, "post_processor"));
  INCIPIT_ASSIGN_OR_RETURN(const auto decoder_json, Section(file, "decoder"));
  if (!model_json) return InvalidArgument("the field model of tokenizer.json is missing");

  std::unique_ptr<const Normalizer> normalizer;
  if (normalizer_json) {
    INCIPIT_ASSIGN_OR_RETURN(normalizer, CreateNormalizer(*normalizer_json));
  }
  PreTokenization pre_tokenization;
  if (pre_tokenizer_json) {
    INCIPIT_ASSIGN_OR_RETURN(pre_tokenization, CreatePreTokenization(*pre_tokenizer_json));
  }
  INCIPIT_ASSIGN_OR_RETURN(BpeModel model,
                           BpeModel::Create(*model_json, pre_tokenization.words_are_bytes));
  if (pre_tokenization.words_are_bytes && model.word_form() == WordForm::kText) {
    AppendByteCharacterStep(pre_tokenization);
  }
  INCIPIT_ASSIGN_OR_RETURN(AddedVocabulary added, AddedVocabulary::Create(file.Find("added_tokens"),
                                                                          model, normalizer.get()));
  PostProcessing post_processing;
  if (post_processor_json) {
    INCIPIT_ASSIGN_OR_RETURN(post_processing, CreatePostProcessing(*post_processor_json));
  }
  INCIPIT_ASSIGN_OR_RETURN(TokenDecoder decoder,
                           CreateTokenDecoder(decoder_json ? &*decoder_json : nullptr));
  return std::unique_ptr<Tokenizer>(new Tokenizer(
      std::make_unique<Pipeline>(Pipeline::Parts{.normalizer = std::move(normalizer),
                                                 .pre_tokenization = std::move(pre_tokenization),
                                                 .model = std::move(model),
                                                 .added = std::move(added),
                                                 .post_processing = std::move(post_processing),
                                                 .decoder = std::move(decoder),
                                                 .config = std::move(config)})));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Parse(std::string_view tokenizer_json) {
  return Build(tokenizer_json, {});
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  INCIPIT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  INCIPIT_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(folder));
  const auto bytes = file.bytes();
  auto tokenizer =
      Build({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, std::move(config));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path.string());
  return tokenizer;
}

}  // namespace incipit
