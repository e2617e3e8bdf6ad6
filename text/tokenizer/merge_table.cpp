#include "text/tokenizer/merge_table.h"

#include <algorithm>
#include <utility>

namespace incipit {

MergeTable::Merge& MergeTable::SlotFor(TokenId left, TokenId right) {
  if (num_used_ * 2 >= slots_.size()) {
    const std::vector<Merge> merges = std::exchange(slots_, std::vector<Merge>(slots_.size() * 2));
    mask_ = slots_.size() - 1;
    filter_.assign(slots_.size() * kFilterBitsPerSlot / 64, 0);
    num_used_ = 0;
    for (const Merge& merge : merges) {
      if (merge.left >= 0) SlotFor(merge.left, merge.right) = merge;
    }
  }
  const uint64_t hash = HashOf(left, right);
  size_t slot = SlotOf(hash);
  while (slots_[slot].left >= 0 && !(slots_[slot].left == left && slots_[slot].right == right)) {
    slot = (slot + 1) & mask_;
  }
  Merge& merge = slots_[slot];
  if (merge.left < 0) {
    merge = {.left = left, .right = right};
    filter_[FilterWordOf(hash)] |= uint64_t{1} << FilterBitOf(hash);
    ++num_used_;
  }
  return merge;
}

void MergeTable::Add(TokenId left, TokenId right, TokenId merged) {
  SlotFor(left, right).rank = static_cast<int32_t>(merged_.size());
  merged_.push_back(merged);
}

void MergeTable::FinishAdding(size_t num_tokens) {
  // A token begins with what the left one of its merge begins with, and ends with what the right
  // one ends with; following that leads to symbols that no merge makes.
  std::vector<TokenId> left_of(num_tokens, -1), right_of(num_tokens, -1);
  const std::vector<Merge> merges = slots_;
  for (const Merge& merge : merges) {
    if (merge.left < 0) continue;
    left_of[merged_[merge.rank]] = merge.left;
    right_of[merged_[merge.rank]] = merge.right;
  }
  // A chain has no more links than there are tokens, unless it is a circle: then nothing is known.
  const auto follow = [](const std::vector<TokenId>& links, TokenId id) {
    for (size_t i = 0; i < links.size() && links[id] >= 0; ++i) id = links[id];
    return id;
  };
  for (const Merge& merge : merges) {
    if (merge.left >= 0) SlotFor(follow(right_of, merge.left), follow(left_of, merge.right));
  }
}

std::vector<MergeTable::Merge> MergeTable::InOrder() const {
  std::vector<Merge> merges;
  for (const Merge& merge : slots_) {
    if (merge.left >= 0 && merge.rank != kNoRank) merges.push_back(merge);
  }
  std::ranges::sort(merges, {}, &Merge::rank);
  return merges;
}

}  // namespace incipit
