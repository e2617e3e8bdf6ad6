#include "text/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/status.h"

namespace incipit {
namespace {

constexpr size_t kRememberedMax = 4096;  // number of entries of each cache of the encoder
// Minimum length in bytes of a text for which the encoder uses caches.
constexpr size_t kRememberFromBytes = 2048;

std::string_view BytesOf(std::span<const TokenId> ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size_bytes()};
}

}  // namespace

BpeEncoder::BpeEncoder(const BpeModel& model, size_t text_bytes) : model_(model), merger_(model) {
  if (text_bytes < kRememberFromBytes) return;
  words_.resize(kRememberedMax);
  segments_.resize(kRememberedMax);
}

// Returns the only cache entry in which the tokens of `bytes` may be stored. The caller must
// compare the key of the entry with `bytes`. Returns null if `memory` is empty or `bytes` is too
// long.
BpeEncoder::Remembered* BpeEncoder::Find(Memory& memory, std::string_view bytes) {
  if (memory.empty() || bytes.size() > kRememberedBytesMax) return nullptr;
  return &memory[std::hash<std::string_view>()(bytes) % kRememberedMax];
}

void BpeEncoder::Remember(Remembered& slot, std::string_view bytes, size_t ids_begin,
                          size_t num_ids) {
  slot.length = static_cast<uint32_t>(bytes.size());
  slot.num_ids = static_cast<uint32_t>(num_ids);
  slot.ids_begin = ids_begin;
  std::memcpy(slot.bytes, bytes.data(), bytes.size());
}

absl::Status BpeEncoder::Encode(std::string_view word, std::vector<TokenId>& ids) {
  if (word.size() == 1) {
    if (const auto id = model_.ByteToken(word[0])) {
      ids.push_back(*id);
      return absl::OkStatus();
    }
  }
  Remembered* slot = Find(words_, word);
  if (slot == nullptr) return EncodeNew(word, ids);
  if (std::string_view(slot->bytes, slot->length) == word) {
    for (uint32_t i = 0; i < slot->num_ids; ++i) ids.push_back(ids[slot->ids_begin + i]);
    return absl::OkStatus();
  }
  const size_t begin = ids.size();
  INCIPIT_RETURN_IF_ERROR(EncodeNew(word, ids));
  Remember(*slot, word, begin, ids.size() - begin);
  return absl::OkStatus();
}

absl::Status BpeEncoder::EncodeNew(std::string_view word, std::vector<TokenId>& ids) {
  if (word.empty()) return absl::OkStatus();
  if (const auto id = model_.WholeWord(word)) {
    ids.push_back(*id);
    return absl::OkStatus();
  }
  const size_t begin = ids.size();
  INCIPIT_RETURN_IF_ERROR(model_.AppendCharacters(word, ids));
  const size_t num_symbols = ids.size() - begin;
  if (num_symbols <= BpeMerger::kShortSymbolsMax) {
    ids.resize(begin + merger_.Merge({ids.data() + begin, num_symbols}));
  } else {
    MergeInSegments(ids, begin);
  }
  return absl::OkStatus();
}

// Merges the symbols (single characters as tokens) of the word in `ids` from index `begin` on.
// Splits the word between symbols that no merge can join, and merges each segment separately.
void BpeEncoder::MergeInSegments(std::vector<TokenId>& ids, size_t begin) {
  const MergeTable& merges = model_.merges();
  const std::span<TokenId> symbols(ids.data() + begin, ids.size() - begin);
  size_t write = begin;
  for (size_t first = 0, i = 1; i <= symbols.size(); ++i) {
    if (i < symbols.size() && merges.MayJoin(symbols[i - 1], symbols[i])) continue;
    write = MergeSegment(symbols.subspan(first, i - first), ids, write);
    first = i;
  }
  ids.resize(write);
}

// Merges the symbols of `segment`, and writes the tokens to `ids` from index `write` on. Returns
// the index in `ids` after the last token. REQUIRES: `segment` is a part of `ids` that begins at or
// after index `write`.
size_t BpeEncoder::MergeSegment(std::span<TokenId> segment, std::vector<TokenId>& ids,
                                size_t write) {
  if (segment.size() == 1) {
    ids[write] = segment[0];
    return write + 1;
  }
  const std::string_view key = BytesOf(segment);
  Remembered* slot = Find(segments_, key);
  if (slot != nullptr && std::string_view(slot->bytes, slot->length) == key) {
    std::copy_n(ids.data() + slot->ids_begin, slot->num_ids, ids.data() + write);
    return write + slot->num_ids;
  }
  // Copy the key, because the merged tokens overwrite `segment`.
  char bytes[kRememberedBytesMax];
  if (slot != nullptr) std::memcpy(bytes, key.data(), key.size());
  const size_t num_ids = merger_.Merge(segment);
  std::copy_n(segment.data(), num_ids, ids.data() + write);
  if (slot != nullptr) Remember(*slot, {bytes, key.size()}, write, num_ids);
  return write + num_ids;
}

}  // namespace incipit
