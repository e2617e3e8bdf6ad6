// Tests images in prompts. All images have equal tokens, but only equal images may share blocks or
// parts of blocks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

constexpr TokenId kImageToken = 99;

// Returns six text tokens, six tokens of an image, and the token `last`.
std::vector<TokenId> Prompt(TokenId last) {
  std::vector<TokenId> tokens = TokenRange(0, 6);
  tokens.insert(tokens.end(), 6, kImageToken);
  tokens.push_back(last);
  return tokens;
}

class MediaHitTest : public testing::TestWithParam<HashAlgorithm> {
 protected:
  // Returns the number of tokens that a prompt with the image `image` finds in the cache. If
  // `image` is empty, the prompt has no image.
  int32_t Found(const std::string& image, TokenId last) {
    CachedSequence sequence(cache_, Prompt(last));
    sequence.table.root = RootWith(image);
    sequence.table.hashes.clear();
    cache_.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
    const int32_t num_found = sequence.AdmitAndCommit();
    sequence.Free();
    return num_found;
  }

  ChainRoot RootWith(const std::string& image) const {
    if (image.empty()) return cache_.hasher().Root({});
    return cache_.hasher().Root({}, {{image, 6, 6}});
  }

  KvCacheManager cache_{{.num_blocks = 40, .block_size = 4, .hash = GetParam()}};
};

TEST_P(MediaHitTest, EqualImagesShareBlocksAndOthersOnlyWhatIsBeforeThem) {
  EXPECT_EQ(Found("cat", 7), 0);
  EXPECT_EQ(Found("cat", 8), 12);
  EXPECT_EQ(Found("dog", 7), 4);  // block 1 contains two tokens of the image
  EXPECT_EQ(Found("dog", 8), 12);
}

TEST_P(MediaHitTest, TextThatLooksLikeAnImageSharesNoneOfItsBlocks) {
  EXPECT_EQ(Found("cat", 7), 0);
  EXPECT_EQ(Found("", 7), 4);
  EXPECT_EQ(Found("", 8), 12);
}

INSTANTIATE_TEST_SUITE_P(Each, MediaHitTest,
                         testing::Values(HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                                         HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace incipit
