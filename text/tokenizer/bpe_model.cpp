#include "text/tokenizer/bpe_model.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr size_t kPageSize = 256;  // number of code points per page of the table `character_ids_`

}  // namespace

// Appends the tokens of the characters of a word. Replaces characters outside the vocabulary by
// other tokens, or omits them. Appends the tokens in the same order as Hugging Face tokenizers.
class BpeModel::Unknown {
 public:
  Unknown(const BpeModel& model, std::vector<TokenId>& ids) : model_(model), ids_(ids) {}

  void Known(TokenId id) {
    Finish();
    ids_.push_back(id);
  }

  absl::Status Character(std::string_view character) {
    if (model_.options_.byte_fallback && AppendFallback(character)) return absl::OkStatus();
    if (!model_.options_.unk_token.has_value()) return absl::OkStatus();
    if (pending_ >= 0 && model_.options_.fuse_unk) return absl::OkStatus();
    const std::optional<TokenId> id = model_.IdOf(*model_.options_.unk_token);
    if (!id.has_value()) {
      return InvalidArgument(
          "the text has a character outside the vocabulary of the tokenizer, and the vocabulary "
          "does not contain the unk_token");
    }
    Finish();
    pending_ = *id;
    return absl::OkStatus();
  }

  void Finish() {
    if (pending_ >= 0) ids_.push_back(pending_);
    pending_ = -1;
  }

 private:
  bool AppendFallback(std::string_view character) {
    const auto id_of = [&](char c) { return model_.byte_fallbacks_[static_cast<uint8_t>(c)]; };
    if (std::ranges::any_of(character, [&](char c) { return id_of(c) < 0; })) return false;
    for (const char c : character) ids_.push_back(id_of(c));
    return true;
  }

  const BpeModel& model_;
  std::vector<TokenId>& ids_;
  // Token for unknown characters (unk_token) that must be appended next; -1 if there is none.
  TokenId pending_ = -1;
};

absl::StatusOr<BpeModel> BpeModel::Create(const JsonFields& model, bool prefer_bytes) {
  INCIPIT_ASSIGN_OR_RETURN(const auto type, model.OptionalString("type"));
  // Old tokenizer.json files have no field `type` of the model. In these files, a model with the
  // field `merges` is a BPE model.
  if (type.has_value() ? *type != "BPE" : model.Find("merges") == nullptr) {
    return Unimplemented("the field {} is {}; the only supported value is BPE",
                         model.PathOf("type"), type.value_or("missing"));
  }
  BpeModel bpe;
  INCIPIT_RETURN_IF_ERROR(bpe.ReadOptions(model));
  INCIPIT_RETURN_IF_ERROR(bpe.ReadVocabulary(model));
  INCIPIT_RETURN_IF_ERROR(bpe.ReadMerges(model));
  const bool marks_words =
      !bpe.options_.continuing_subword_prefix.empty() || !bpe.options_.end_of_word_suffix.empty();
  if (prefer_bytes && !marks_words) bpe.word_form_ = WordForm::kBytes;
  bpe.IndexCharacters();
  return bpe;
}

absl::Status BpeModel::ReadOptions(const JsonFields& model) {
  if (const auto* dropout = model.Find("dropout"); dropout != nullptr) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      return Unimplemented("the field {} is {}; the only supported value is 0",
                           model.PathOf("dropout"), dropout->dump());
    }
  }
  INCIPIT_ASSIGN_OR_RETURN(options_.unk_token, model.OptionalString("unk_token"));
  INCIPIT_ASSIGN_OR_RETURN(const auto prefix, model.OptionalString("continuing_subword_prefix"));
  INCIPIT_ASSIGN_OR_RETURN(const auto suffix, model.OptionalString("end_of_word_suffix"));
  INCIPIT_ASSIGN_OR_RETURN(options_.fuse_unk, model.Bool("fuse_unk", false));
  INCIPIT_ASSIGN_OR_RETURN(options_.byte_fallback, model.Bool("byte_fallback", false));
  INCIPIT_ASSIGN_OR_RETURN(options_.ignore_merges, model.Bool("ignore_merges", false));
  options_.continuing_subword_prefix = prefix.value_or("");
  options_.end_of_word_suffix = suffix.value_or("");
  return absl::OkStatus();
}

absl::Status BpeModel::ReadVocabulary(const JsonFields& model) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* vocabulary, model.Object("vocab"));
  ids_.reserve(vocabulary->size());
  for (const auto& [token, value] : vocabulary->items()) {
    const bool in_range = value.is_number_unsigned() && value.get<uint64_t>() <= kTokenIdMax;
    if (!in_range) {
      return InvalidArgument("a token in the field {} has the id {}; an id must be from 0 to {}",
                             model.PathOf("vocab"), value.dump(), kTokenIdMax);
    }
    const auto id = value.get<TokenId>();
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(id + 1);
    // Two tokens with the same id are an error, unless the text of the first token is empty.
    if (!tokens_[id].empty()) {
      return InvalidArgument("in the field {}, two tokens have the id {}", model.PathOf("vocab"),
                             id);
    }
    tokens_[id] = token;
    ids_.emplace(token, id);
  }
  return absl::OkStatus();
}

absl::Status BpeModel::ReadMerges(const JsonFields& model) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* merges, model.Array("merges"));
  if (merges->size() > kMergesMax) {
    return InvalidArgument("the field {} has {} merges; at most {} merges are supported",
                           model.PathOf("merges"), merges->size(), kMergesMax);
  }
  for (size_t i = 0; i < merges->size(); ++i) {
    const nlohmann::json& merge = (*merges)[i];
    const auto path = [&] { return fmt::format("{}[{}]", model.PathOf("merges"), i); };
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      INCIPIT_RETURN_IF_ERROR(AddMerge(merge[0].get_ref<const std::string&>(),
                                       merge[1].get_ref<const std::string&>(), path()));
      continue;
    }
    if (!merge.is_string()) return InvalidArgument("the merge {} is not a pair of tokens", path());
    const std::string_view line = merge.get_ref<const std::string&>();
    if (line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      return InvalidArgument("the merge {} is not two tokens with one space between the tokens",
                             path());
    }
    INCIPIT_RETURN_IF_ERROR(AddMerge(line.substr(0, space), line.substr(space + 1), path()));
  }
  merges_.Finish(tokens_.size());
  pair_check_ = PairCheck::Create(merges_, tokens_.size());
  return absl::OkStatus();
}

absl::Status BpeModel::AddMerge(std::string_view left, std::string_view right,
                                const std::string& path) {
  const size_t prefix_length = options_.continuing_subword_prefix.size();
  if (right.size() < prefix_length) {
    return InvalidArgument(
        "the second token of the merge {} is shorter than continuing_subword_prefix", path);
  }
  std::string merged(left);
  merged += right.substr(prefix_length);
  const auto left_id = IdOf(left), right_id = IdOf(right), merged_id = IdOf(merged);
  if (!left_id || !right_id || !merged_id) {
    return InvalidArgument("for the merge {}, the {} token is not in the vocabulary", path,
                           !left_id    ? "first"
                           : !right_id ? "second"
                                       : "merged");
  }
  merges_.Add(*left_id, *right_id, *merged_id);
  return absl::OkStatus();
}

void BpeModel::IndexCharacters() {
  character_pages_.assign((kCodePointMax + 1) / kPageSize, -1);
  byte_ids_.fill(-1);
  byte_fallbacks_.fill(-1);
  for (const auto& [token, id] : ids_) {
    if (token.empty() || token.size() != Utf8Length(token[0])) continue;
    size_t position = 0;
    const char32_t character = NextCodePoint(token, position);
    int32_t& page = character_pages_[character / kPageSize];
    if (page < 0) {
      page = static_cast<int32_t>(character_ids_.size());
      character_ids_.resize(character_ids_.size() + kPageSize, -1);
    }
    character_ids_[page + character % kPageSize] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    const char as_char = static_cast<char>(byte);
    AppendByteCharacters({&as_char, 1}, character);
    byte_ids_[byte] = IdOf(character).value_or(-1);
    byte_fallbacks_[byte] = IdOf(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  has_all_bytes_ = word_form_ == WordForm::kBytes &&
                   std::ranges::all_of(byte_ids_, [](TokenId id) { return id >= 0; });
  if (word_form_ == WordForm::kBytes && options_.ignore_merges) {
    for (const auto& [token, id] : ids_) {
      if (auto bytes = BytesOfCharacters(token)) ids_of_bytes_.emplace(*std::move(bytes), id);
    }
  }
}

std::optional<TokenId> BpeModel::IdOf(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* BpeModel::TokenOf(TokenId id) const {
  if (id < 0 || id >= id_end()) return nullptr;
  const std::string& token = tokens_[id];
  return token.empty() && IdOf("") != id ? nullptr : &token;
}

std::optional<TokenId> BpeModel::WholeWord(std::string_view word) const {
  if (!options_.ignore_merges) return std::nullopt;
  const IdMap& map = word_form_ == WordForm::kBytes ? ids_of_bytes_ : ids_;
  const auto found = map.find(word);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TokenId> BpeModel::CharacterId(char32_t character) const {
  const int32_t page = character_pages_[character / kPageSize];
  if (page < 0) return std::nullopt;
  const TokenId id = character_ids_[page + character % kPageSize];
  return id < 0 ? std::nullopt : std::optional(id);
}

absl::Status BpeModel::AppendCharacters(std::string_view word, std::vector<TokenId>& ids) const {
  if (word_form_ == WordForm::kBytes) return AppendBytes(word, ids);
  if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
    return AppendMarkedCharacters(word, ids);
  }
  Unknown unknown(*this, ids);
  for (size_t position = 0; position < word.size();) {
    const size_t begin = position;
    if (const auto id = CharacterId(NextCodePoint(word, position))) {
      unknown.Known(*id);
    } else {
      INCIPIT_RETURN_IF_ERROR(unknown.Character(word.substr(begin, position - begin)));
    }
  }
  unknown.Finish();
  return absl::OkStatus();
}

absl::Status BpeModel::AppendBytes(std::string_view word, std::vector<TokenId>& ids) const {
  if (has_all_bytes_) {
    const auto id_of = [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    ids.resize(ids.size() + word.size());
    std::ranges::transform(word, ids.end() - static_cast<ptrdiff_t>(word.size()), id_of);
    return absl::OkStatus();
  }
  Unknown unknown(*this, ids);
  for (const char& byte : word) {
    if (const TokenId id = byte_ids_[static_cast<uint8_t>(byte)]; id >= 0) {
      unknown.Known(id);
      continue;
    }
    std::string character;
    AppendByteCharacters({&byte, 1}, character);
    INCIPIT_RETURN_IF_ERROR(unknown.Character(character));
  }
  unknown.Finish();
  return absl::OkStatus();
}

absl::Status BpeModel::AppendMarkedCharacters(std::string_view word,
                                              std::vector<TokenId>& ids) const {
  Unknown unknown(*this, ids);
  for (size_t position = 0; position < word.size();) {
    const size_t length = Utf8Length(word[position]);
    std::string character;
    if (position > 0) character = options_.continuing_subword_prefix;
    character += word.substr(position, length);
    position += length;
    if (position == word.size()) character += options_.end_of_word_suffix;
    if (const auto id = IdOf(character)) {
      unknown.Known(*id);
    } else {
      INCIPIT_RETURN_IF_ERROR(unknown.Character(character));
    }
  }
  unknown.Finish();
  return absl::OkStatus();
}

}  // namespace incipit
