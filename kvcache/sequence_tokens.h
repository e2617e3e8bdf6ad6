// A view of the tokens of a sequence, in one or two pieces of memory.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "base/types.h"

namespace incipit {

// The tokens of a sequence in order, in at most two pieces of memory. Sequences with the same
// prompt share `head`, and each sequence has its own `tail`. `head` ends at the end of a block, so
// the tokens of each block are contiguous in memory.
class SequenceTokens {
 public:
  SequenceTokens() = default;
  // Creates a view of tokens in one piece of memory, such as a span or a vector.
  template <std::convertible_to<std::span<const TokenId>> Tokens>
  SequenceTokens(const Tokens& tokens) : tail_(tokens) {}
  // Creates a view of the tokens of `head` and then `tail`. REQUIRES: the size of `head` is a
  // multiple of the block size.
  SequenceTokens(std::span<const TokenId> head, std::span<const TokenId> tail)
      : head_(head), tail_(tail) {}

  size_t size() const { return head_.size() + tail_.size(); }
  bool empty() const { return size() == 0; }
  // Returns the tokens [begin, begin + count). REQUIRES: `begin` is a multiple of the block size.
  SequenceTokens subspan(size_t begin, size_t count) const {
    if (begin >= head_.size()) return tail_.subspan(begin - head_.size(), count);
    const size_t num_of_head = std::min(count, head_.size() - begin);
    return {head_.subspan(begin, num_of_head), tail_.first(count - num_of_head)};
  }
  SequenceTokens first(size_t count) const { return subspan(0, count); }
  // Returns the tokens from index `begin` to the end of the memory piece (head or tail) that
  // contains the token at `begin`. REQUIRES: `begin` < size().
  std::span<const TokenId> From(size_t begin) const {
    return begin < head_.size() ? head_.subspan(begin) : tail_.subspan(begin - head_.size());
  }

 private:
  std::span<const TokenId> head_, tail_;
};

}  // namespace incipit
