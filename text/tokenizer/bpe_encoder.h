// Encodes words as tokens with byte-pair encoding (BPE). The time is nearly linear in the length of
// a word. If a tokenizer has no pre-tokenizer, a whole text is one word.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "text/tokenizer/bpe_merger.h"
#include "text/tokenizer/bpe_model.h"

namespace incipit {

// Encodes the words of one text. A cache maps words that occurred earlier in the text to their
// tokens.
class BpeEncoder {
 public:
  // Creates an encoder for a text of about `text_bytes` bytes. The encoder has no cache if
  // `text_bytes` is less than 2048. REQUIRES: `model` outlives the encoder.
  BpeEncoder(const BpeModel& model, size_t text_bytes);

  // Appends the tokens of `word` to `ids`. REQUIRES: all calls use the same vector `ids`, and the
  // caller removes no elements of `ids`, because the cache refers to these elements.
  absl::Status Encode(std::string_view word, std::vector<TokenId>& ids);

 private:
  // Maximum length in bytes of a key in the cache.
  static constexpr size_t kRememberedBytesMax = 48;

  // A cache entry. The key is bytes[0, length). The value is a list of tokens: the elements
  // [ids_begin, ids_begin + num_ids) of the vector `ids` in Encode().
  struct Remembered {
    uint32_t length = 0;
    uint32_t num_ids = 0;
    size_t ids_begin = 0;
    char bytes[kRememberedBytesMax];
  };
  // A direct-mapped cache: a key can be in only one entry. Empty if the encoder has no cache.
  using Memory = std::vector<Remembered>;
  static Remembered* Find(Memory& memory, std::string_view bytes);
  static void Remember(Remembered& slot, std::string_view bytes, size_t ids_begin, size_t num_ids);

  absl::Status EncodeNew(std::string_view word, std::vector<TokenId>& ids);
  void MergeInSegments(std::vector<TokenId>& ids, size_t begin);
  size_t MergeSegment(std::span<TokenId> segment, std::vector<TokenId>& ids, size_t write);

  const BpeModel& model_;
  BpeMerger merger_;
  // Cache of whole words. The key is the text of a word.
  Memory words_;
  // Cache of segments: parts of a word that are merged separately. The key is the bytes of the
  // segment's token ids before the merges.
  Memory segments_;
};

}  // namespace incipit
