#include "text/tokenizer/added_vocabulary.h"

#include <algorithm>

#include "base/status.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// Returns the offset at which the white space directly before the offset `end` begins. Returns
// `end` if the character before `end` is not white space. Examines only the characters in [begin,
// end).
size_t BlanksBefore(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    const size_t last = PreviousCharacter(text, end);
    if (size_t position = last; !IsWhitespace(NextCodePoint(text, position))) break;
    end = last;
  }
  return end;
}

size_t BlanksAfter(std::string_view text, size_t begin) {
  for (size_t next = begin; begin < text.size(); begin = next) {
    if (!IsWhitespace(NextCodePoint(text, next))) break;
  }
  return begin;
}

}  // namespace

int32_t Trie::ChildOf(int32_t node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto found = std::ranges::lower_bound(children, byte, {}, [](auto& c) { return c.first; });
  return found != children.end() && found->first == byte ? found->second : -1;
}

void Trie::Add(std::string_view string, int32_t value) {
  int32_t node = 0;
  for (const char c : string) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t child = ChildOf(node, byte);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      children.insert(std::ranges::upper_bound(children, std::pair(byte, child)), {byte, child});
    }
    node = child;
  }
  if (nodes_[node].value >= 0) return;
  nodes_[node].value = value;
  is_first_[static_cast<unsigned char>(string[0])] = true;
}

std::optional<Trie::Match> Trie::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!is_first_[static_cast<unsigned char>(text[begin])]) continue;
    Match match;
    int32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      node = ChildOf(node, static_cast<unsigned char>(text[i]));
      if (node < 0) break;
      if (nodes_[node].value >= 0) {
        match = {.begin = begin, .end = i + 1, .value = nodes_[node].value};
      }
    }
    if (match.value >= 0) return match;
  }
  return std::nullopt;
}

absl::StatusOr<AddedVocabulary::Token> AddedVocabulary::ReadToken(const JsonFields& fields,
                                                                  const Normalizer* normalizer) {
  Token token;
  INCIPIT_ASSIGN_OR_RETURN(token.content, fields.String("content"));
  INCIPIT_ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
  INCIPIT_ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
  INCIPIT_ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
  INCIPIT_ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  INCIPIT_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  if (token.content.empty() || token.content.size() > kAddedTokenBytesMax) {
    return InvalidArgument("the field {} has {} bytes; an added token must have from 1 to {} bytes",
                           fields.PathOf("content"), token.content.size(), kAddedTokenBytesMax);
  }
  token.decoded = token.content;
  if (token.normalized && normalizer != nullptr) {
    NormalizedText text = NormalizedText::Of(token.content, false);
    INCIPIT_RETURN_IF_ERROR(normalizer->Apply(text));
    token.decoded = std::move(text.text);
  }
  return token;
}

absl::StatusOr<AddedVocabulary> AddedVocabulary::Create(const nlohmann::json* list,
                                                        const BpeModel& model,
                                                        const Normalizer* normalizer) {
  AddedVocabulary vocabulary;
  if (list == nullptr) return vocabulary;
  if (!list->is_array() || list->size() > kAddedTokensMax) {
    return InvalidArgument("added_tokens must be an array of at most {} entries", kAddedTokensMax);
  }
  absl::flat_hash_map<int64_t, size_t> index_of_given_id;
  auto next_id = static_cast<TokenId>(model.num_tokens());
  for (size_t i = 0; i < list->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const JsonFields fields,
                             JsonFields::Of((*list)[i], fmt::format("added_tokens[{}]", i)));
    INCIPIT_ASSIGN_OR_RETURN(const int64_t given_id, fields.Integer("id", {0, kTokenIdMax}));
    INCIPIT_ASSIGN_OR_RETURN(Token token, ReadToken(fields, normalizer));
    const auto [same_id, is_new_id] = index_of_given_id.emplace(given_id, i);
    if (!is_new_id) {
      return InvalidArgument("added_tokens[{}] and added_tokens[{}] have the same id {}",
                             same_id->second, i, given_id);
    }
    if (const auto known = vocabulary.index_of_content_.find(token.content);
        known != vocabulary.index_of_content_.end()) {
      token.id = vocabulary.tokens_[known->second].id;
      vocabulary.tokens_[known->second] = std::move(token);
      continue;
    }
    const auto model_id = model.IdOf(token.content);
    token.id = model_id ? *model_id : next_id++;
    vocabulary.index_of_content_.emplace(token.content, vocabulary.tokens_.size());
    vocabulary.tokens_.push_back(std::move(token));
  }
  vocabulary.IndexTokens();
  if (std::ranges::any_of(vocabulary.tokens_, &Token::single_word)) {
    vocabulary.word_characters_.Assign(WordCharacters(), 1);
  }
  return vocabulary;
}

void AddedVocabulary::IndexTokens() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    id_end_ = std::max(id_end_, token.id + 1);
    index_of_id_.emplace(token.id, i);
    if (token.special) special_texts_.insert(token.content);
    const auto pass = static_cast<size_t>(token.normalized ? Pass::kNormalized : Pass::kRaw);
    has_special_[pass] = has_special_[pass] || token.special;
    // A token whose normalized text is empty cannot occur in a text.
    if (!token.decoded.empty()) tries_[pass].Add(token.decoded, static_cast<int32_t>(i));
  }
}

std::optional<TokenId> AddedVocabulary::IdOf(std::string_view content) const {
  const auto found = index_of_content_.find(content);
  if (found == index_of_content_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

const std::string* AddedVocabulary::TokenOf(TokenId id) const {
  const auto found = index_of_id_.find(id);
  return found == index_of_id_.end() ? nullptr : &tokens_[found->second].decoded;
}

bool AddedVocabulary::IsSpecial(TokenId id) const {
  const auto found = index_of_id_.find(id);
  return found != index_of_id_.end() && tokens_[found->second].special;
}

bool AddedVocabulary::TakesBlanks() const {
  return std::any_of(tokens_.begin(), tokens_.end(),
                     [](const Token& token) { return token.lstrip || token.rstrip; });
}

bool AddedVocabulary::IsPartOfWord(std::string_view text, size_t begin, size_t end) const {
  if (end < text.size() && word_characters_[NextCodePoint(text, end)] != 0) return true;
  if (begin == 0) return false;
  begin = PreviousCharacter(text, begin);
  return word_characters_[NextCodePoint(text, begin)] != 0;
}

absl::Status AddedVocabulary::Split(Pass pass, std::string_view text, IsLiteral is_literal,
                                    PartSink sink) const {
  const Trie& trie = tries_[static_cast<size_t>(pass)];
  size_t done = 0;    // number of bytes of `text` that were passed to `sink`
  size_t search = 0;  // byte offset at which the search for the next token starts
  while (!trie.empty()) {
    const auto match = trie.Find(text, search);
    if (!match) break;
    search = match->end;
    const Token& token = tokens_[match->value];
    if (token.special && is_literal(match->begin, match->end)) continue;
    if (token.single_word && IsPartOfWord(text, match->begin, match->end)) continue;
    size_t begin = match->begin, end = match->end;
    // The option lstrip extends a token to the blanks before it, except blanks that the previous
    // token covers.
    if (token.lstrip) begin = std::max(BlanksBefore(text, 0, begin), done);
    if (token.rstrip) end = BlanksAfter(text, end);
    if (begin >= end) continue;  // the previous token covers all bytes of this token
    if (done < begin) INCIPIT_RETURN_IF_ERROR(sink({.begin = done, .end = begin}));
    INCIPIT_RETURN_IF_ERROR(sink({.begin = begin, .end = end, .id = token.id}));
    done = end;
  }
  return done < text.size() ? sink({.begin = done, .end = text.size()}) : absl::OkStatus();
}

}  // namespace incipit
