// Merges the characters of words into tokens, in a time that is near linear in the word.
#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "engine/text/bpe_model.h"

namespace incipit {

// One call's encoder: working memory, and a memory of the words seen so far in this call.
class BpeEncoder {
 public:
  // `model` outlives it. `text_bytes` is about what will be encoded: a short text gets no memory.
  BpeEncoder(const BpeModel& model, size_t text_bytes);

  // Appends the word's tokens to `ids`, which must be the same vector in every call and not shrink.
  absl::Status Encode(std::string_view word, std::vector<TokenId>& ids);

 private:
  static constexpr size_t kRememberedBytesMax = 24;

  // A word and where its tokens stand in the output.
  struct Remembered {
    uint32_t length = 0;
    uint32_t num_ids = 0;
    size_t ids_begin = 0;
    char bytes[kRememberedBytesMax];
  };

  // The places in a long word where one merge may apply. Mostly they arrive in order.
  struct Places {
    int32_t rank = 0;
    std::vector<int32_t> ordered;
    size_t next = 0;
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> late;
    bool waiting = false;  // in `ranks_`

    bool empty() const { return next == ordered.size() && late.empty(); }
    void Add(int32_t place);
    int32_t TakeFirst();
  };

  absl::Status EncodeNew(std::string_view word, std::vector<TokenId>& ids);
  void MergeShort(std::vector<TokenId>& ids, size_t begin) const;
  void MergeLong(std::vector<TokenId>& ids, size_t begin);
  void AddPlace(int32_t left, int32_t right);
  void ApplyMerge(int32_t place, int32_t rank);

  const BpeModel& model_;
  std::vector<Remembered> remembered_;  // direct mapped; empty if nothing is remembered
  // Of one long word: its symbols as a linked list, -1 for a symbol that was merged away.
  std::vector<TokenId> symbols_;
  std::vector<int32_t> next_, previous_;
  std::vector<int32_t> places_of_rank_;  // one more than the index into places_; 0 for none
  std::vector<Places> places_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ranks_;
};

}  // namespace incipit
