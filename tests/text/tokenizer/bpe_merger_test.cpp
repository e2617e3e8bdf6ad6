#include "text/tokenizer/bpe_merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json/json_fields.h"

namespace incipit {
namespace {

using nlohmann::json;

// Merges one pair at a time, as BPE is defined.
std::vector<TokenId> MergedOneByOne(const MergeTable& merges, std::vector<TokenId> symbols) {
  while (true) {
    int32_t best = MergeTable::kNoRank;
    TokenId merged = -1;
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const MergeTable::Entry* merge = merges.Find(symbols[i], symbols[i + 1]);
      if (merge == nullptr || merge->rank >= best) continue;
      best = merge->rank;
      merged = merge->merged;
      place = i;
    }
    if (best == MergeTable::kNoRank) return symbols;
    symbols[place] = merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

// Returns a model with random merges of the first `num_letters` letters. If `shuffle` is true, a
// token may be the result of several merges, in any order.
json RandomModel(std::mt19937& random, int num_letters, int num_merges, bool shuffle) {
  json model = {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}};
  std::vector<std::string> tokens;
  for (int i = 0; i < num_letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
  std::vector<json> merges;
  for (int i = 0; i < num_merges; ++i) {
    const std::string& left = tokens[random() % tokens.size()];
    const std::string& right = tokens[random() % tokens.size()];
    if (left.size() + right.size() > 12) continue;
    const std::string merged = left + right;
    merges.push_back({left, right});
    if (std::ranges::find(tokens, merged) == tokens.end()) tokens.push_back(merged);
  }
  if (shuffle) std::ranges::shuffle(merges, random);
  for (size_t i = 0; i < tokens.size(); ++i) model["vocab"][tokens[i]] = i;
  model["merges"] = merges;
  return model;
}

TEST(BpeMergerTest, LongWordsAreMergedAsOneByOne) {
  std::mt19937 random(5);
  int num_in_windows = 0;
  for (int round = 0; round < 3000; ++round) {
    const int num_letters = 2 + static_cast<int>(random() % 25);
    const json file = RandomModel(random, num_letters, 1 + static_cast<int>(random() % 600),
                                  /*shuffle=*/round % 4 == 0);
    const auto fields = JsonFields::Of(file, "model");
    ASSERT_TRUE(fields.ok());
    const auto model = BpeModel::Create(*fields, /*prefer_bytes=*/false);
    ASSERT_TRUE(model.ok()) << model.status();
    num_in_windows += model->pair_check() != nullptr ? 1 : 0;
    BpeMerger merger(*model);
    // Texts are merged in windows only if no merge produces one of their symbols. Every eighth
    // round uses other symbols too.
    const int num_symbols = round % 8 == 1 ? model->id_end() : num_letters;
    for (const size_t length : {30, 49, 60, 64, 65, 150, 400}) {
      std::vector<TokenId> symbols(length);
      const size_t period = random() % 2 == 0 ? length : 1 + random() % 9;
      for (size_t i = 0; i < length; ++i) {
        symbols[i] =
            i < period ? static_cast<TokenId>(random() % num_symbols) : symbols[i - period];
      }
      const std::vector<TokenId> expected = MergedOneByOne(model->merges(), symbols);
      symbols.resize(merger.Merge(symbols));
      ASSERT_EQ(symbols, expected) << "round " << round << ", " << file;
    }
  }
  EXPECT_EQ(num_in_windows, 3000);
}

TEST(BpeMergerTest, TokensMayBeLongerThanWindows) {
  for (const std::string unit : {"a", "ac"}) {
    json file = {{"type", "BPE"},
                 {"vocab", {{"a", 0U}, {"b", 1U}, {"c", 2U}, {"ac", 3U}}},
                 {"merges", json::array({json::array({"a", "c"})})}};
    std::string token = unit;
    for (int i = 0; i < 9; ++i, token += token) {
      file["merges"].push_back({token, token});
      file["vocab"][token + token] = 4U + static_cast<unsigned>(i);
    }
    const auto model = BpeModel::Create(*JsonFields::Of(file, "model"), /*prefer_bytes=*/false);
    ASSERT_TRUE(model.ok()) << model.status();
    BpeMerger merger(*model);
    for (const size_t run : {1, 2, 63, 64, 65, 300, 1023, 1024, 1500, 4000}) {
      std::vector<TokenId> symbols(4100);
      for (size_t i = 0; i < symbols.size(); ++i) {
        symbols[i] = i % (run + 1) == run ? 1 : i % unit.size() == 0 ? 0 : 2;
      }
      const std::vector<TokenId> expected = MergedOneByOne(model->merges(), symbols);
      symbols.resize(merger.Merge(symbols));
      EXPECT_EQ(symbols, expected) << unit << ", " << run;
    }
  }
}

}  // namespace
}  // namespace incipit
