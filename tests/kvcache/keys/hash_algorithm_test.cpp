#include "kvcache/keys/hash_algorithm.h"

#include <gtest/gtest.h>

#include <set>

namespace incipit {
namespace {

TEST(HashAlgorithmTest, EveryNameLeadsToAnAlgorithmAndBack) {
  for (const auto algorithm : {HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                               HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor}) {
    EXPECT_EQ(ValueIn(kHashAlgorithmNames, NameOf(algorithm)), algorithm);
  }
  EXPECT_EQ(NameOf(HashAlgorithm::kSha256), "sha256");
  EXPECT_EQ(NameOf(HashAlgorithm::kXxh3), "xxh3_128");
  EXPECT_EQ(NameOf(HashAlgorithm::kSha256Cbor), "sha256_cbor");
  EXPECT_EQ(NameOf(HashAlgorithm::kXxh3Cbor), "xxh3_128_cbor");
}

TEST(HashAlgorithmTest, TheFieldsNamesAreAliases) {
  EXPECT_EQ(ValueIn(kHashAlgorithmNames, "xxhash"), HashAlgorithm::kXxh3);
  EXPECT_EQ(ValueIn(kHashAlgorithmNames, "xxhash_cbor"), HashAlgorithm::kXxh3Cbor);
}

TEST(HashAlgorithmTest, NoOtherNameIsTaken) {
  for (const std::string_view name : {"", "SHA256", "sha256 ", "sha", "xxh3", "md5", "builtin"}) {
    EXPECT_FALSE(ValueIn(kHashAlgorithmNames, name).has_value()) << name;
  }
}

TEST(HashAlgorithmTest, TheListOfNamesIsWhatIsTaken) {
  std::set<HashAlgorithm> algorithms;
  for (const auto& named : kHashAlgorithmNames) {
    EXPECT_EQ(ValueIn(kHashAlgorithmNames, named.name), named.value) << named.name;
    algorithms.insert(named.value);
  }
  EXPECT_EQ(std::size(kHashAlgorithmNames), 6u);
  EXPECT_EQ(algorithms.size(), 4u);
}

TEST(HashAlgorithmTest, HitsOfWhatCanCollideAreVerified) {
  for (const auto& named : kHashAlgorithmNames) {
    EXPECT_EQ(NeedsVerification(named.value), named.name != "sha256");
  }
}

}  // namespace
}  // namespace incipit
