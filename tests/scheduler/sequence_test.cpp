#include "scheduler/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

class SequenceTest : public testing::Test {
 protected:
  std::unique_ptr<SequenceGroup> Make(Request request) {
    request.output_tokens_max = 6;
    return MakeSequenceGroup(std::make_shared<const Request>(std::move(request)), cache_);
  }

  KvCacheManager cache_{{.num_blocks = 64, .block_size = 4}};
};

TEST_F(SequenceTest, ChoicesShareTheWholeBlocksOfTheRequestsPrompt) {
  const auto group = Make({.prompt = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, .num_choices = 3});
  for (Sequence& sequence : group->sequences) {
    EXPECT_EQ(sequence.head.data(), group->request->prompt.data());
    EXPECT_EQ(sequence.head.size(), 8u);
    EXPECT_THAT(sequence.tail, ElementsAre(8, 9));
    EXPECT_EQ(sequence.num_tokens(), 10);
    sequence.Append(50 + sequence.choice);
    sequence.Append(60);
    EXPECT_EQ(sequence.num_tokens(), 12);
    EXPECT_EQ(sequence.num_output(), 2);
    EXPECT_THAT(sequence.tokens().From(8), ElementsAre(8, 9, 50 + sequence.choice, 60));
  }
}

TEST_F(SequenceTest, APromptWithinABlockIsEachChoicesOwn) {
  const auto group = Make({.prompt = {1, 2, 3}, .num_choices = 2});
  for (Sequence& sequence : group->sequences) {
    EXPECT_TRUE(sequence.head.empty());
    EXPECT_THAT(sequence.tail, ElementsAre(1, 2, 3));
  }
}

TEST_F(SequenceTest, EachChoiceCountsThePromptAndItsOwnOutput) {
  Request request = {.prompt = {7, 3, 7, 7, 9}, .num_choices = 2};
  request.sampling.presence_penalty = 1;
  const auto group = Make(std::move(request));
  group->sequences[1].Append(3);
  group->sequences[1].Append(8);
  EXPECT_THAT(group->sequences[0].counts,
              ElementsAre(FieldsAre(3, 1, 0), FieldsAre(7, 3, 0), FieldsAre(9, 1, 0)));
  EXPECT_THAT(group->sequences[1].counts, ElementsAre(FieldsAre(3, 1, 1), FieldsAre(7, 3, 0),
                                                      FieldsAre(8, 0, 1), FieldsAre(9, 1, 0)));
}

}  // namespace
}  // namespace incipit
