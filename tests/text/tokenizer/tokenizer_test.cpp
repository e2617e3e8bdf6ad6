#include "text/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/added_vocabulary.h"
#include "text/tokenizer/detokenizer.h"

namespace incipit {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kSource = INCIPIT_SOURCE_DIR;

// Returns a tokenizer file with a few letters and a special token that Encode() finds in a text.
json SmallFile() {
  return {
      {"version", "1.0"},
      {"added_tokens", {{{"id", 4}, {"content", "<s>"}, {"special", true}, {"normalized", false}}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"<", 3}}},
        {"merges", {"a b"}}}}};
}

absl::Status LoadStatus(const json& file) { return Tokenizer::Parse(file.dump()).status(); }

std::unique_ptr<Tokenizer> Load(const std::filesystem::path& folder) {
  auto tokenizer = Tokenizer::Load(kSource / folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(TokenizerTest, AFileThatIsWrongIsRefusedByTheNameOfThePart) {
  const std::pair<json, const char*> kPatches[] = {
      {{{"model", {{"vocab", {{"a", -1}}}}}}, "model.vocab"},
      {{{"model", {{"vocab", {{"a", 1 << 24}}}}}}, "model.vocab"},
      {{{"model", {{"vocab", {{"c", 0}}}}}}, "two tokens have the id 0"},
      {{{"model", {{"merges", {"a c"}}}}}, "model.merges[0]"},
      {{{"model", {{"merges", {"ab"}}}}}, "model.merges[0]"},
      {{{"added_tokens", {{{"id", 4}, {"content", ""}}}}}, "added_tokens[0].content"},
      {{{"added_tokens", {{{"id", -4}, {"content", "x"}}}}}, "added_tokens[0].id"},
      {{{"added_tokens", {{{"id", 4}, {"content", "x"}}, {{"id", 4}, {"content", "y"}}}}},
       "the same id 4"},
      {{{"normalizer", "NFC"}}, "normalizer"},
      {{{"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}}},
       "normalizer.pattern"},
      {{{"post_processor",
         {{"type", "TemplateProcessing"},
          {"single", {{{"Sequence", {{"id", "B"}}}}}},
          {"special_tokens", json::object()}}}},
       "post_processor.single"},
  };
  for (const auto& [patch, part] : kPatches) {
    json file = SmallFile();
    file.merge_patch(patch);
    const absl::Status status = LoadStatus(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << patch;
    EXPECT_THAT(MessageOf(status), HasSubstr(part));
  }
  EXPECT_EQ(Tokenizer::Parse(std::string(100'000, '[')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Tokenizer::Parse("{}").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, MergesThatGoInACircleEnd) {
  json file = SmallFile();
  file["model"]["vocab"][""] = 5;
  file["model"]["merges"] = json::array({{"", "a"}, {"a", ""}, {"a", "b"}, {"", ""}});
  const auto tokenizer = Tokenizer::Parse(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("aabb", {}), ElementsAre(0, 2, 1));
}

TEST(TokenizerTest, AddedTokensHaveALimit) {
  json file = SmallFile();
  file["added_tokens"] = json(kAddedTokensMax + 1, file["added_tokens"][0]);
  EXPECT_THAT(MessageOf(LoadStatus(file)), HasSubstr("at most 65536"));
}

TEST(TokenizerTest, WhatIsNotSupportedIsRefusedByItsName) {
  const std::pair<json, const char*> kPatches[] = {
      {{{"model", {{"type", "Unigram"}}}}, "Unigram"},
      {{{"model", {{"dropout", 0.1}}}}, "dropout"},
      {{{"normalizer", {{"type", "Precompiled"}}}}, "Precompiled"},
      {{{"pre_tokenizer", {{"type", "UnicodeScripts"}}}}, "UnicodeScripts"},
      {{{"post_processor", {{"type", "Other"}}}}, "Other"},
      {{{"decoder", {{"type", "CTC"}}}}, "CTC"},
  };
  for (const auto& [patch, name] : kPatches) {
    json file = SmallFile();
    file.merge_patch(patch);
    const absl::Status status = LoadStatus(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << patch;
    EXPECT_THAT(MessageOf(status), HasSubstr(name));
  }
}

TEST(TokenizerTest, AFolderWithoutATokenizerIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(Tokenizer::Load(kSource / "tests/data").status()));
}

TEST(TokenizerTest, SpecialTokensAreTextInsideLiteralRanges) {
  const auto tokenizer = *Tokenizer::Parse(SmallFile().dump());
  const ByteRange inside[] = {{.begin = 2, .end = 5}};
  const ByteRange touching[] = {{.begin = 0, .end = 2}, {.begin = 5, .end = 7}};
  const std::string text = "ab<s>ab";
  EXPECT_THAT(*tokenizer->Encode(text, {}), ElementsAre(2, 4, 2));
  EXPECT_THAT(*tokenizer->Encode(text, {.literal_ranges = touching}), ElementsAre(2, 4, 2));
  EXPECT_THAT(*tokenizer->Encode(text, {.literal_ranges = inside}), ElementsAre(2, 3, 2));
  EXPECT_THAT(*tokenizer->Encode(text, {.parse_special_tokens = false}), ElementsAre(2, 3, 2));
}

TEST(TokenizerTest, ABlankTokenThatTakesTheBlanksAroundItIsThereOnce) {
  json file = SmallFile();
  file["added_tokens"].push_back(
      {{"id", 5}, {"content", "\n"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}});
  const auto tokenizer = *Tokenizer::Parse(file.dump());
  EXPECT_THAT(*tokenizer->Encode("\n\n\n", {}), ElementsAre(5));
  EXPECT_THAT(*tokenizer->Encode("a\n\nb", {}), ElementsAre(0, 5, 1));
}

TEST(TokenizerTest, OfTokensThatNormalizeAlikeTheFirstIsFound) {
  json file = SmallFile();
  file["normalizer"] = {{"type", "Lowercase"}};
  for (const auto& [id, content] : {std::pair(5, "<X>"), std::pair(6, "<x>")}) {
    file["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", true}});
  }
  const auto tokenizer = *Tokenizer::Parse(file.dump());
  EXPECT_THAT(*tokenizer->Encode("<X><x>", {}), ElementsAre(5, 5));
}

TEST(TokenizerTest, NormalizedSpecialTokensAreTextInsideLiteralRanges) {
  json file = SmallFile();
  file["added_tokens"][0]["normalized"] = true;
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", "aa"}};
  file["added_tokens"][0]["content"] = "<";
  const auto tokenizer = *Tokenizer::Parse(file.dump());
  // The normalizer also changes the text of the added token: Encode() finds the token as `aa<`.
  const ByteRange first[] = {{.begin = 0, .end = 1}};
  EXPECT_THAT(*tokenizer->Encode("<b", {}), ElementsAre(3, 1));
  EXPECT_THAT(*tokenizer->Encode("<b", {.literal_ranges = first}), ElementsAre(0, 0, 3, 1));
}

TEST(TokenizerTest, TextThatIsNoUtf8IsRefused) {
  const auto tokenizer = *Tokenizer::Parse(SmallFile().dump());
  EXPECT_EQ(tokenizer->Encode("a\xFF", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(tokenizer->Encode(std::string("a\0b", 3), {}).ok());
}

TEST(TokenizerTest, AnAnswerThatContinuesAPromptKeepsItsFirstSpace) {
  const auto tokenizer = Load("tests/data/tokenizers/llama2_style");
  const auto prompt = *tokenizer->Encode("Once upon", {});
  const auto whole = *tokenizer->Encode("Once upon a time", {});
  const std::vector<TokenId> answer(whole.begin() + static_cast<ptrdiff_t>(prompt.size()),
                                    whole.end());
  const auto stream = [&](bool after_prompt) {
    Detokenizer detokenizer(*tokenizer, true, after_prompt);
    std::string text;
    for (const TokenId id : answer) text += detokenizer.Push(id);
    return text += detokenizer.Flush();
  };
  EXPECT_EQ(stream(true), " a time");
  EXPECT_EQ(stream(false), "a time");
  EXPECT_EQ(stream(false), tokenizer->Decode(answer, true));
}

TEST(TokenizerTest, TokenBytesAreThoseInsideAnAnswer) {
  const auto bytes = Load("tests/data/tokenizers/byte_level");
  EXPECT_EQ(bytes->TokenBytes(*bytes->IdOf("\u0120")), " ");
  EXPECT_EQ(bytes->TokenBytes(0xE4), "\xE4");
  EXPECT_EQ(bytes->TokenBytes(-1), "");
  EXPECT_EQ(bytes->TokenBytes(bytes->vocab_size()), "");
  const auto pieces = Load("tests/data/tokenizers/llama2_style");
  EXPECT_EQ(pieces->TokenBytes(*pieces->IdOf("<0xE4>")), "\xE4");
  EXPECT_EQ(pieces->TokenBytes(*pieces->IdOf("\u2581")), " ");
}

TEST(TokenizerTest, LongRunsOfOneCharacterTakeLinearTime) {
  for (const char* name : {"byte_level", "llama3_style", "llama2_style"}) {
    const auto tokenizer = Load(std::filesystem::path("tests/data/tokenizers") / name);
    for (const std::string unit : {"a", " ", "1", "!", "\n", "é", "一", "🙂", "the"}) {
      std::string text;
      while (text.size() < 1 << 20) text += unit;
      const auto ids = tokenizer->Encode(text, {.add_special_tokens = false});
      ASSERT_TRUE(ids.ok()) << name;
      EXPECT_TRUE(tokenizer->Decode(*ids, false) == text) << name << ": " << unit;
    }
  }
}

}  // namespace
}  // namespace incipit
