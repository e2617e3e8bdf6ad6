// Compares small tokenizers of every kind with Hugging Face tokenizers.
// tools/make_tokenizer_goldens.py writes the tokenizers and the expected results for texts and ids.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

using nlohmann::json;

const std::filesystem::path kFolder =
    std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/data/tokenizers";

std::vector<std::string> TokenizerNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class TokenizerGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::Load(kFolder / GetParam());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    std::ifstream file(kFolder / GetParam() / "golden.json");
    golden_ = json::parse(file);
  }

  std::string Stream(const std::vector<TokenId>& ids, bool skip_special_tokens) {
    Detokenizer detokenizer(*tokenizer_, skip_special_tokens, /*after_prompt=*/false);
    std::string text;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.Push(id);
      EXPECT_TRUE(IsUtf8(piece)) << "a piece splits a character";
      text += piece;
    }
    return text += detokenizer.Flush();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  json golden_;
};

TEST_P(TokenizerGoldenTest, TextsHaveTheReferencesIds) {
  for (const json& entry : golden_.at("encoded")) {
    const auto ids = tokenizer_->Encode(entry["text"].get<std::string>(),
                                        {.add_special_tokens = entry["special"].get<bool>()});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<TokenId>>()) << entry["text"];
  }
}

TEST_P(TokenizerGoldenTest, IdsHaveTheReferencesText) {
  for (const json& entry : golden_.at("decoded")) {
    const auto ids = entry["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_->Decode(ids, entry["skip"].get<bool>()), entry["text"].get<std::string>())
        << entry["ids"];
    EXPECT_EQ(Stream(ids, entry["skip"].get<bool>()), entry["text"].get<std::string>())
        << entry["ids"];
  }
}

TEST_P(TokenizerGoldenTest, AStreamAddsUpToTheWholeForAnyIds) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random() % 30);
    for (TokenId& id : ids)
      id = static_cast<TokenId>(random() % (tokenizer_->vocab_size() + 2)) - 1;
    const bool skip = random() % 2 == 0;
    ASSERT_EQ(Stream(ids, skip), tokenizer_->Decode(ids, skip)) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldenTest, testing::ValuesIn(TokenizerNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace incipit
