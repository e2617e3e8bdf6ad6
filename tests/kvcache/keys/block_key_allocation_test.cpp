#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/kvcache/keys/key_vectors_text.h"

namespace {
thread_local bool counts = false;
thread_local int64_t num_allocations = 0;
}  // namespace

// Not inlined: gcc warns of mismatched `new` and `delete` if it inlines only one of them.
[[gnu::noinline]] void* operator new(size_t size) {
  if (counts) ++num_allocations;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace incipit {
namespace {

template <typename Function>
int64_t NumAllocations(const Function& function) {
  num_allocations = 0;
  counts = true;
  function();
  counts = false;
  return num_allocations;
}

TEST(BlockKeyAllocationTest, TheCounterCounts) {
  std::vector<int> numbers;
  EXPECT_EQ(NumAllocations([&] { numbers.reserve(100); }), 1);
}

TEST(BlockKeyAllocationTest, ExtendingAChainThatHasRoomAllocatesNothing) {
  for (const KeyVector& vector : KeyVectors()) {
    for (const HashAlgorithm algorithm : kEveryAlgorithm) {
      const BlockHasher hasher = HasherOf(vector, algorithm);
      CacheNamespace names = NamespaceOf(vector);
      // The salt is longer than any buffer of the hasher.
      if (!names.salt.empty()) names.salt.append(5000, '.');
      const ChainRoot root = hasher.Root(names, vector.media);
      const std::vector<TokenId> tokens = VectorTokens(2048);
      std::vector<BlockHash> hashes;
      hashes.reserve(2048);
      EXPECT_EQ(NumAllocations([&] { hasher.Extend(root, tokens, hashes); }), 0) << vector.name;
      EXPECT_EQ(hashes.size(), 2048 / static_cast<size_t>(vector.block_size));
    }
  }
}

TEST(BlockKeyAllocationTest, TheNextKeyAllocatesNothing) {
  const std::string text(3000, 'm');
  const ExtraKey extras[] = {{ExtraKind::kAdapterName, "style"}, {ExtraKind::kMedia, text, -3}};
  for (const HashAlgorithm algorithm : kEveryAlgorithm) {
    const BlockHasher hasher({.block_size = 16, .algorithm = algorithm});
    const BlockHash parent = hasher.Root({}).parent;
    const std::vector<TokenId> tokens = VectorTokens(16);
    BlockHash key;
    EXPECT_EQ(NumAllocations([&] { key = hasher.Next(parent, tokens); }), 0);
    EXPECT_EQ(NumAllocations([&] { key = hasher.Next(key, tokens, extras); }), 0);
  }
}

}  // namespace
}  // namespace incipit
