// Compares the bits of keys and values with those of the current numerics version
// (kernels/numerics_version.h). Stored keys and values of an earlier process are only used if both
// processes have the same version. The expected digests are for x86-64 and for the sine and cosine
// of glibc.
//
// If a test fails, the change gave keys and values other bits or another order:
// 1. Find out whether the change was meant to. If not, correct the change.
// 2. Increase kNumericsVersion (other bits) or kKvLayoutVersion (other order) by 1, but only once
//    between two releases.
// 3. Replace the versions and the digests below with those in the messages of the failed tests. Run
//    the tests on a CPU with AVX-512, so that no digest is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/hash/sha256.h"
#include "base/status.h"
#include "kernels/numerics_version.h"
#include "tests/exactness/random_model.h"

namespace incipit {
namespace {

// The versions for which the digests below were computed.
constexpr int32_t kNumericsVersionOfDigests = 1, kLayoutVersionOfDigests = 1;

// Maps a backend to the SHA-256 digest of the keys and values of all models in the test.
const std::map<std::string, std::string>& Digests() {
  static const std::map<std::string, std::string> digests = {
      {"Reference", "cccd8f3ccf31487926f78ac2cee47ddb0df41da67a668f59e2af3c64101ea774"},
      {"Simd_portable", "4ac79c061514adf77d4f9a439aff3fe7a0c206ca9c1754a0646c04284bc005b6"},
      {"Simd_avx2", "2760fa65fd94a5d62ad9644af89290948a67ec3cb0c34a690e6aeb2c3924a315"},
      {"Simd_avx512", "45e5381ab83615b5622d292e6af121ee22dab1a1cada7ca6ea7afd1e916cf8ba"},
      {"Simd_avx512_vnni", "45e5381ab83615b5622d292e6af121ee22dab1a1cada7ca6ea7afd1e916cf8ba"},
      {"Simd_avx512_bf16", "aca05dbfaefc9fc5a92795c18d6e3f7fbf697f7f17609d0716027dc756bf6b85"},
      {"EmulatedDots", "1a5b842113d4a6f028ca55291db822291e3b279c250113de8436c9fd99718c12"},
      {"EmulatedAmx", "2b50f1767fa98ca07a210cabd33ac7363555245a3b7870a7334fa8264bdb2946"},
  };
  return digests;
}

// Returns the bytes of the blocks that hold the keys and values of a fixed prompt.
std::vector<std::byte> BlocksOfPrompt(const RandomModelOptions& options) {
  RandomModel model(options);
  constexpr int32_t kLength = 96;  // a multiple of every block size
  std::vector<TokenId> tokens;
  RandomNumbers numbers(17);
  for (int32_t i = 0; i < kLength; ++i) tokens.push_back(numbers.Below(model.config().vocab_size));
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < kLength / options.family->block_size; ++i) blocks.push_back(BlockId{i});
  // One step computes most of the prompt, and each later step one token.
  constexpr int32_t kFirst = kLength - 3;
  model.Run({{std::span(tokens).first(kFirst), 0, blocks}}, RandomModel::Rows::kLast);
  for (int32_t i = kFirst; i < kLength; ++i) {
    model.Run({{std::span(tokens).subspan(static_cast<size_t>(i), 1), i, blocks}});
  }
  return model.Blocks(blocks);
}

std::string DigestOf(const BackendCase& backend) {
  const std::vector<DType> kv_dtypes = backend.create(1)->limits().kv_dtypes;
  const Sha256Digest digest = Sha256Of([&](ByteSink sink) {
    for (const Family& family : Families()) {
      for (const WeightForm& form : WeightForms()) {
        for (const DType kv_dtype : kv_dtypes) {
          const std::vector<std::byte> bytes = BlocksOfPrompt({.family = &family,
                                                               .backend = &backend,
                                                               .weights = form,
                                                               .kv_dtype = kv_dtype,
                                                               .num_blocks = 24});
          sink({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
        }
      }
    }
  });
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

class KvBitsTest : public testing::TestWithParam<BackendCase> {};

TEST_P(KvBitsTest, TheBitsAreThoseOfTheNumericsVersion) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the expected digests are for x86-64";
#endif
  if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
  const auto expected = Digests().find(GetParam().name);
  if (expected == Digests().end()) GTEST_SKIP() << "no digest is known for this backend";
  EXPECT_EQ(kNumericsVersion, kNumericsVersionOfDigests) << "replace the versions of the digests";
  EXPECT_EQ(kKvLayoutVersion, kLayoutVersionOfDigests) << "replace the versions of the digests";
  EXPECT_EQ(DigestOf(GetParam()), expected->second)
      << "keys and values have other bits or another order than with numerics version "
      << kNumericsVersion << " and layout version " << kKvLayoutVersion
      << "; read the beginning of " << __FILE__;
}

INSTANTIATE_TEST_SUITE_P(Backends, KvBitsTest, testing::ValuesIn(BackendsAndReference()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
