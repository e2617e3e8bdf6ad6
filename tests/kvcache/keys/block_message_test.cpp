#include "kvcache/keys/block_message.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kvcache/keys/hex.h"

namespace incipit {
namespace {

using Bytes = std::vector<uint8_t>;
// Kind, text and offset.
using OwnedExtra = std::tuple<ExtraKind, std::string, int64_t>;

struct BlockInput {
  std::vector<TokenId> tokens;
  std::vector<OwnedExtra> extras;

  friend bool operator==(const BlockInput&, const BlockInput&) = default;
};

Bytes Written(ByteSource message) {
  Bytes bytes;
  message([&](std::span<const uint8_t> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

using BlockWriter = void (*)(const BlockMessage&, ByteSink);

Bytes MessageOf(BlockWriter write, const BlockInput& input, size_t parent_bytes = 32) {
  const Bytes parent(parent_bytes, 0x11);
  std::vector<ExtraKey> extras;
  for (const auto& [kind, text, offset] : input.extras) extras.push_back({kind, text, offset});
  return Written([&](ByteSink sink) { write({parent, input.tokens, extras}, sink); });
}

// Generates random inputs of block keys. There are few different values and only short texts, so
// inputs are often similar and sometimes equal. The texts contain bytes that look like tokens,
// lengths and CBOR heads.
class InputDice {
 public:
  BlockInput Block(std::span<const ExtraKind> kinds) {
    BlockInput input;
    input.tokens.resize(Below(4));
    for (TokenId& token : input.tokens) token = Pick({0, 1, 2, 23, 24, 0x61, 256, 1 << 16});
    input.extras.resize(Below(4));
    for (auto& [kind, text, offset] : input.extras) {
      kind = kinds[Below(kinds.size())];
      text = Text();
      if (kind == ExtraKind::kMedia) offset = Pick({-2, -1, 0, 1, 2, 15});
    }
    return input;
  }

  std::string Text() {
    std::string text(Below(4), '\0');
    for (char& c : text) c = static_cast<char>(Pick({0, 1, 2, 4, 0x60, 0x61}));
    return text;
  }

  size_t Below(size_t bound) { return random_() % bound; }
  int32_t Pick(std::initializer_list<int32_t> values) {
    return *(values.begin() + Below(values.size()));
  }

 private:
  std::mt19937_64 random_{20};
};

constexpr ExtraKind kEveryKind[] = {ExtraKind::kAdapterName, ExtraKind::kMedia, ExtraKind::kTenant,
                                    ExtraKind::kSalt};

TEST(BlockMessageTest, DifferentBlocksHaveDifferentMessages) {
  InputDice dice;
  std::map<Bytes, BlockInput> seen;
  size_t num_repeated = 0;
  for (int i = 0; i < 60'000; ++i) {
    const BlockInput input = dice.Block(kEveryKind);
    const auto [it, is_new] = seen.emplace(MessageOf(WriteBlock, input), input);
    num_repeated += !is_new;
    ASSERT_EQ(it->second, input) << Hex(it->first);
  }
  EXPECT_GT(num_repeated, 100u);  // checks that equal inputs occur often
}

// The CBOR bytes contain the adapter name and the salt in the same form. So that bytes identify the
// input, each test input has at most one of the two.
TEST(BlockMessageTest, DifferentBlocksHaveDifferentCborMessages) {
  InputDice dice;
  std::map<Bytes, BlockInput> seen;
  for (int i = 0; i < 60'000; ++i) {
    const BlockInput input = dice.Block(std::span(kEveryKind).first(3));
    const auto [it, is_new] = seen.emplace(MessageOf(WriteCborBlock, input), input);
    ASSERT_EQ(it->second, input) << Hex(it->first);
  }
}

TEST(BlockMessageTest, DifferentNamespacesHaveDifferentMessages) {
  InputDice dice;
  std::map<Bytes, std::pair<std::string, CacheNamespace>> seen;
  for (int i = 0; i < 60'000; ++i) {
    const std::string seed = dice.Text();
    CacheNamespace names;
    if (dice.Below(2) == 0) names.tenant = dice.Text();
    names.salt = dice.Text();
    if (dice.Below(2) == 0) names.adapter = {.name = "", .digest = {uint8_t(dice.Below(3))}};
    const Bytes message = Written([&](ByteSink sink) { WriteRoot(seed, names, sink); });
    const std::pair input(seed, names);
    const auto [it, is_new] = seen.emplace(message, input);
    ASSERT_EQ(it->second, input) << Hex(message);
  }
}

TEST(BlockMessageTest, NoBlockHasTheMessageOfANamespace) {
  InputDice dice;
  for (int i = 0; i < 1000; ++i) {
    const Bytes block = MessageOf(WriteBlock, dice.Block(kEveryKind));
    const std::string seed = dice.Text() + std::string(block.begin(), block.end());
    EXPECT_EQ(block.back(), 'B');
    EXPECT_EQ(Written([&](ByteSink sink) { WriteRoot(seed, {}, sink); }).back(), 'R');
  }
}

TEST(BlockMessageTest, AnEmptyExtraTakesAtMost23Bytes) {
  for (const size_t num_tokens : {1, 16, 32, 64, 256}) {
    const BlockInput input = {.tokens = std::vector<TokenId>(num_tokens, 7), .extras = {}};
    EXPECT_LE(MessageOf(WriteBlock, input).size(), 32 + 4 * num_tokens + 23);
  }
}

TEST(BlockMessageTest, TheLayoutIsWhatItsCommentSays) {
  const BlockInput input = {.tokens = {1, 0x7fffffff},
                            .extras = {{ExtraKind::kMedia, "ab", -2}, {ExtraKind::kSalt, "c", 0}}};
  const std::string parent(64, '1');
  EXPECT_EQ(Hex(MessageOf(WriteBlock, input)),
            parent + "01000000ffffff7f" +           //
                "0202000000feffffffffffffff6162" +  //
                "0401000000000000000000000063" +    //
                "020000001d000000" + "696e636970697442");
  const CacheNamespace names = {.tenant = "t", .salt = "s", .adapter = AdapterKey{"name", {0xad}}};
  EXPECT_EQ(Hex(Written([&](ByteSink sink) { WriteRoot("seed", names, sink); })),
            "01040000000000000073656564"
            "02010000000000000074"
            "03010000000000000073"
            "042000000000000000ad" +
                std::string(62, '0') +
                "0000000000000000"
                "696e636970697452");
}

// RFC 8949: integers from 0 to 23 are part of the head. Larger integers take 1, 2, 4 or 8 more
// bytes.
TEST(BlockMessageTest, CborIsCanonical) {
  const BlockInput input = {.tokens = {0, 23, 24, 255, 256, 65535, 65536, 0x7fffffff},
                            .extras = {{ExtraKind::kAdapterName, "a", 0},
                                       {ExtraKind::kMedia, std::string(24, 'm'), -1},
                                       {ExtraKind::kMedia, "", -(int64_t{1} << 32) - 1},
                                       {ExtraKind::kMedia, "", 255},
                                       {ExtraKind::kTenant, "t", 0},
                                       {ExtraKind::kSalt, "s", 0}}};
  EXPECT_EQ(Hex(MessageOf(WriteCborBlock, input)),
            "83"
            "5820" +
                std::string(64, '1') +
                "88"
                "00"
                "17"
                "1818"
                "18ff"
                "190100"
                "19ffff"
                "1a00010000"
                "1a7fffffff"
                "86"
                "6161"
                "827818"
                "6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d"
                "20"
                "8260"
                "3b0000000100000000"
                "8260"
                "18ff"
                "816174"
                "6173");
  const BlockInput plain = {.tokens = {5}, .extras = {}};
  EXPECT_EQ(Hex(MessageOf(WriteCborBlock, plain, 16)), "8350" + std::string(32, '1') + "8105f6");
  EXPECT_EQ(Hex(Written([](ByteSink sink) { WriteCborText("0", sink); })), "6130");
}

TEST(BlockMessageTest, TheLongestPlainMessagesAreWithinTheirBound) {
  for (const size_t num_tokens : {1, 23, 24, 255, 256}) {
    const BlockInput input = {.tokens = std::vector<TokenId>(num_tokens, 0x7fffffff), .extras = {}};
    EXPECT_LE(MessageOf(WriteBlock, input).size(), PlainMessageBytesMax(num_tokens));
    EXPECT_LE(MessageOf(WriteCborBlock, input).size(), PlainMessageBytesMax(num_tokens));
  }
}

}  // namespace
}  // namespace incipit
