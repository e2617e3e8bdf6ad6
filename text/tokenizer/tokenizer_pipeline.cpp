#include "text/tokenizer/tokenizer_pipeline.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "text/unicode/utf8.h"

namespace incipit {

// Encodes one text with all parts of a tokenizer.
class Tokenizer::Pipeline::Encoding {
 public:
  Encoding(const Parts& parts, std::string_view text, const EncodeOptions& options)
      : parts_(parts), text_(text), options_(options), encoder_(parts.model, text.size()) {}

  // Appends the tokens of the text to `ids`, without the special tokens that the post-processor
  // adds.
  absl::Status Append(std::vector<TokenId>& ids) {
    ids_ = &ids;
    return parts_.added.Split(
        AddedVocabulary::Pass::kRaw, text_,
        [&](size_t begin, size_t end) { return IsLiteral(begin, end); },
        [&](const AddedVocabulary::Part& part) { return TakeSection(part); });
  }

 private:
  using Part = AddedVocabulary::Part;

  bool IsLiteral(size_t begin, size_t end) const {
    if (!options_.parse_special_tokens) return true;
    const auto ranges = options_.literal_ranges;
    const auto range = std::ranges::upper_bound(ranges, begin, {}, &ByteRange::end);
    return range != ranges.end() && range->begin < end;
  }

  absl::Status TakeSection(const Part& section) {
    if (section.id) {
      ids_->push_back(*section.id);
      return absl::OkStatus();
    }
    section_begin_ = section.begin;
    const std::string_view text = text_.substr(section.begin, section.end - section.begin);
    origins_.clear();
    if (parts_.normalizer == nullptr) return SplitNormalized(text);
    NormalizedText normalized = NormalizedText::Of(text, NeedsOrigins());
    INCIPIT_RETURN_IF_ERROR(parts_.normalizer->Apply(normalized));
    origins_ = std::move(normalized.origins);
    return SplitNormalized(normalized.text);
  }

  bool NeedsOrigins() const {
    const bool finds_special = parts_.added.HasSpecial(AddedVocabulary::Pass::kNormalized);
    return (parts_.pre_tokenization.needs_origins && section_begin_ == 0) ||
           (finds_special && !options_.literal_ranges.empty());
  }

  absl::Status SplitNormalized(std::string_view text) {
    const auto is_literal = [&](size_t begin, size_t end) {
      return IsLiteral(OriginOf(begin), OriginOf(end - 1) + 1);
    };
    return parts_.added.Split(AddedVocabulary::Pass::kNormalized, text, is_literal,
                              [&](const Part& part) {
                                if (part.id) {
                                  ids_->push_back(*part.id);
                                  return absl::OkStatus();
                                }
                                return EncodeWords(text, part);
                              });
  }

  // Converts `position`, a byte offset in the current section, to a byte offset in the original
  // text. A section is the normalized text between two added tokens.
  size_t OriginOf(size_t position) const {
    return section_begin_ + (origins_.empty() ? position : origins_[position]);
  }

  absl::Status EncodeWords(std::string_view text, const Part& part) {
    const Word word{.text = text.substr(part.begin, part.end - part.begin),
                    .from_first_character = BytesFromFirstCharacter(text, part)};
    return parts_.pre_tokenization.Split(
        word, [&](const Word& split) { return encoder_.Encode(split.text, *ids_); });
  }

  size_t BytesFromFirstCharacter(std::string_view text, const Part& part) const {
    if (!parts_.pre_tokenization.needs_origins || section_begin_ > 0) return 0;
    if (parts_.normalizer == nullptr) return part.begin == 0 ? Utf8Length(text[0]) : 0;
    const auto first = origins_.begin() + static_cast<ptrdiff_t>(part.begin);
    const auto last = origins_.begin() + static_cast<ptrdiff_t>(part.end);
    return std::find_if(first, last, [](uint32_t origin) { return origin > 0; }) - first;
  }

  const Parts& parts_;
  std::string_view text_;
  const EncodeOptions& options_;
  BpeEncoder encoder_;
  std::vector<TokenId>* ids_ = nullptr;
  size_t section_begin_ = 0;
  // The origin of each byte of the normalized text. Byte i is made from the character at the byte
  // offset section_begin_ + origins_[i] of the original text. Empty if the origins are not needed.
  std::vector<uint32_t> origins_;
};

Tokenizer::Pipeline::Pipeline(Parts parts) : parts_(std::move(parts)) {
  const TokenId id_end = std::max(parts_.model.id_end(), parts_.added.id_end());
  tokens_.resize(id_end);
  has_special_text_.resize(id_end);
  for (TokenId id = 0; id < id_end; ++id) {
    const std::string* token = parts_.added.TokenOf(id);
    tokens_[id] = token != nullptr ? token : parts_.model.TokenOf(id);
    has_special_text_[id] = tokens_[id] != nullptr && parts_.added.IsSpecialText(*tokens_[id]);
  }
  token_bytes_max_ = FindTokenBytesMax();
}

std::optional<size_t> Tokenizer::Pipeline::FindTokenBytesMax() const {
  const std::optional<size_t> shrinks_by =
      parts_.normalizer == nullptr ? std::optional<size_t>(1) : parts_.normalizer->ShrinksBy();
  // True if each of the 256 bytes has its own token. Otherwise, one token for unknown characters
  // may stand for any number of bytes.
  const bool knows_bytes = parts_.pre_tokenization.words_are_bytes && parts_.model.has_all_bytes();
  if (!shrinks_by || !knows_bytes || parts_.pre_tokenization.DropsText() ||
      parts_.added.TakesBlanks()) {
    return std::nullopt;
  }
  size_t longest = 1;
  for (const std::string* token : tokens_) {
    if (token != nullptr) longest = std::max(longest, token->size());
  }
  return longest * *shrinks_by;
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::Pipeline::Encode(
    std::string_view text, const EncodeOptions& options) const {
  if (text.size() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("the text has {} bytes; at most {} bytes can be encoded", text.size(),
                           std::numeric_limits<int32_t>::max());
  }
  if (!IsUtf8(text)) return InvalidArgument("the text is not valid UTF-8");
  const TextTemplate& items = options.add_special_tokens
                                  ? parts_.post_processing.with_special_tokens
                                  : parts_.post_processing.without_special_tokens;
  std::vector<TokenId> ids;
  // Range [first, second) in `ids` of the tokens of the text, without special tokens of the
  // post-processor. Not set until the text is encoded.
  std::optional<std::pair<size_t, size_t>> own;
  for (const std::optional<TokenId>& item : items) {
    if (item) {
      ids.push_back(*item);
    } else if (own) {
      for (size_t i = own->first; i < own->second; ++i) ids.push_back(ids[i]);
    } else {
      const size_t begin = ids.size();
      INCIPIT_RETURN_IF_ERROR(Encoding(parts_, text, options).Append(ids));
      own = {begin, ids.size()};
    }
  }
  return ids;
}

}  // namespace incipit
