#include "kvcache/sequence_tokens.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

std::vector<TokenId> Range(TokenId begin, TokenId end) {
  std::vector<TokenId> tokens;
  for (TokenId token = begin; token < end; ++token) tokens.push_back(token);
  return tokens;
}

// Returns all tokens of `tokens`, read in blocks of 4 tokens.
std::vector<TokenId> BlockByBlock(const SequenceTokens& tokens) {
  std::vector<TokenId> all;
  for (size_t begin = 0; begin < tokens.size(); begin += 4) {
    const auto piece = tokens.From(begin);
    const size_t count = std::min<size_t>(4, tokens.size() - begin);
    EXPECT_GE(piece.size(), count) << "a block is contiguous";
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(count));
  }
  return all;
}

TEST(SequenceTokensTest, TwoPiecesAreOneSequence) {
  for (TokenId num_head = 0; num_head <= 12; num_head += 4) {
    for (TokenId size = num_head; size <= num_head + 9; ++size) {
      const auto head = Range(0, num_head), tail = Range(num_head, size);
      const SequenceTokens tokens(head, tail);
      EXPECT_EQ(tokens.size(), static_cast<size_t>(size));
      EXPECT_EQ(tokens.empty(), size == 0);
      EXPECT_EQ(BlockByBlock(tokens), Range(0, size));
      for (TokenId begin = 0; begin <= size; begin += 4) {
        for (TokenId end = begin; end <= size; ++end) {
          const auto part =
              tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
          EXPECT_EQ(part.size(), static_cast<size_t>(end - begin));
          EXPECT_EQ(BlockByBlock(part), Range(begin, end)) << num_head << " of " << size;
        }
      }
    }
  }
}

TEST(SequenceTokensTest, OnePieceIsAllOfIt) {
  const auto all = Range(0, 10);
  const SequenceTokens tokens = all;
  EXPECT_EQ(tokens.From(0).data(), all.data());
  EXPECT_EQ(tokens.From(3).size(), 7u);
  EXPECT_EQ(BlockByBlock(tokens.first(7)), Range(0, 7));
}

}  // namespace
}  // namespace incipit
