#include "text/tokenizer/bpe_encoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json/json_fields.h"
#include "text/tokenizer/bpe_model.h"

namespace incipit {
namespace {

using nlohmann::json;

std::string Repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

// Two merges produce the token "abc": "a" + "bc" and "ab" + "c". No merge produces "ab", so only
// the first of these merges can happen. A long word must not be divided between "x" and "a",
// because the token "xabc" contains this border.
TEST(BpeEncoderTest, ALongWordIsNotDividedWithinATokenThatTwoMergesMake) {
  const json file = json::parse(R"({
      "type": "BPE",
      "vocab": {"a": 0, "b": 1, "c": 2, "x": 3, "ab": 4, "bc": 5, "abc": 6, "xabc": 7},
      "merges": [["b", "c"], ["a", "bc"], ["ab", "c"], ["x", "abc"]]})");
  const auto fields = JsonFields::Of(file, "model");
  ASSERT_TRUE(fields.ok());
  const auto model = BpeModel::Create(*fields, /*prefer_bytes=*/false);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const int count : {1, 10, 100, 1000}) {
    const std::string word = Repeated("xabc", count);
    std::vector<TokenId> ids;
    ASSERT_TRUE(BpeEncoder(*model, word.size()).Encode(word, ids).ok());
    EXPECT_EQ(ids, std::vector<TokenId>(static_cast<size_t>(count), 7)) << count;
  }
}

}  // namespace
}  // namespace incipit
