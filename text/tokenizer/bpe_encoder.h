// Merges the characters of words into tokens. The time is nearly linear in the length of the word,
// because a word may be a whole prompt.
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

// The encoder of one text: working memory, and a cache of the words encoded so far in the text.
class BpeEncoder {
 public:
  // Creates an encoder for about `text_bytes` bytes of text. A text of less than 2048 bytes gets no
  // cache. REQUIRES: `model` outlives the encoder.
  BpeEncoder(const BpeModel& model, size_t text_bytes);

  // Appends the tokens of `word` to `ids`. REQUIRES: every call passes the same vector, and the
  // vector does not shrink between calls.
  absl::Status Encode(std::string_view word, std::vector<TokenId>& ids);

 private:
  static constexpr size_t kRememberedBytesMax = 48;  // maximum length of a key of the cache

  // An entry of the cache: bytes that were encoded, and the range of their tokens in the output.
  struct Remembered {
    uint32_t length = 0;
    uint32_t num_ids = 0;
    size_t ids_begin = 0;
    char bytes[kRememberedBytesMax];
  };
  // Direct-mapped cache of encoded bytes. The vector is empty if the text is too short for a cache.
  using Memory = std::vector<Remembered>;
  static Remembered* Find(Memory& memory, std::string_view bytes);
  static void Remember(Remembered& slot, std::string_view bytes, size_t ids_begin, size_t num_ids);

  absl::Status EncodeNew(std::string_view word, std::vector<TokenId>& ids);
  void MergeInSegments(std::vector<TokenId>& ids, size_t begin);
  size_t MergeSegment(std::span<TokenId> segment, std::vector<TokenId>& ids, size_t write);

  const BpeModel& model_;
  BpeMerger merger_;
  Memory words_;     // cache of words; the key is the bytes of the word
  Memory segments_;  // cache of segments; the key is the bytes of the symbol ids
};

}  // namespace incipit
