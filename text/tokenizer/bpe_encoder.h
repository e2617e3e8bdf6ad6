// Merges the characters of words into tokens, in a time that is near linear in the word, because a
// word may be the whole prompt.
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

// One call's encoder: working memory, and a memory of what was encoded so far in this call.
class BpeEncoder {
 public:
  // `model` outlives it. `text_bytes` is about what will be encoded: a short text gets no memory.
  BpeEncoder(const BpeModel& model, size_t text_bytes);

  // Appends the word's tokens to `ids`, which must be the same vector in every call and not shrink.
  absl::Status Encode(std::string_view word, std::vector<TokenId>& ids);

 private:
  static constexpr size_t kRememberedBytesMax = 48;

  // Something that was encoded, and where its tokens stand in the output.
  struct Remembered {
    uint32_t length = 0;
    uint32_t num_ids = 0;
    size_t ids_begin = 0;
    char bytes[kRememberedBytesMax];
  };
  // Direct mapped; empty if nothing is remembered.
  using Memory = std::vector<Remembered>;
  static Remembered* Find(Memory& memory, std::string_view bytes);
  static void Remember(Remembered& slot, std::string_view bytes, size_t ids_begin, size_t num_ids);

  absl::Status EncodeNew(std::string_view word, std::vector<TokenId>& ids);
  void MergeInSegments(std::vector<TokenId>& ids, size_t begin);
  size_t MergeSegment(std::span<TokenId> segment, std::vector<TokenId>& ids, size_t write);

  const BpeModel& model_;
  BpeMerger merger_;
  Memory words_;     // by their bytes
  Memory segments_;  // by their symbols
};

}  // namespace incipit
