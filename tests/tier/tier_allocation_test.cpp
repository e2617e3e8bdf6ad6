// Tests that the functions of a disk tier allocate no memory on the engine thread.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/tier/tier_harness.h"

namespace {

thread_local int64_t num_allocations = 0;

}  // namespace

// Not inlined: if gcc inlines only one of `operator new` and `operator delete`, gcc warns that the
// two do not match.
[[gnu::noinline]] void* operator new(size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort calls this operator.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace incipit {
namespace {

// Counts the allocations of `call` on this thread.
class Counter {
 public:
  template <typename Call>
  auto operator()(Call call) {
    const int64_t before = num_allocations;
    const auto result = call();
    total_ += num_allocations - before;
    return result;
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

TEST(TierAllocationTest, LoadsStoresAndReclaimsAllocateNothing) {
  TierHarness h;
  h.options.size_bytes = 3 * TierHarness::kSegmentBytes;
  h.Start();
  DiskTier& tier = *h.tier;
  Counter count;
  uint64_t num_loaded = 0, num_moved = 0;
  const auto poll_until = [&](auto done) {
    while (!done()) {
      count([&] { return tier.Poll(); });
      std::this_thread::yield();
    }
  };
  for (uint64_t i = 0; i < 300; ++i) {
    const TestChunk chunk(i, 0);
    const auto store = count([&] { return tier.BeginStore(chunk.identity, {}); });
    ASSERT_TRUE(store.has_value());
    FillPayload(chunk.identity.key, 0, tier.bytes_of(*store));
    count([&] { return tier.FinishStore(*store), true; });
    poll_until([&] { return !tier.has_pending_stores(); });
    ASSERT_TRUE(count([&] { return tier.Has(chunk.identity.key); }));
    // The first chunks are used all the time, so they move again and again.
    const TestChunk hot(i % 4, 0);
    const auto load = count([&] { return tier.Load(hot.identity); });
    ASSERT_TRUE(load.has_value());
    poll_until([&] { return tier.state(*load) != LoadState::kPending; });
    num_loaded += tier.state(*load) == LoadState::kReady;
    count([&] { return tier.Release(*load), true; });
    num_moved = count([&] { return tier.stats(); }).chunks_moved;
  }
  EXPECT_EQ(num_loaded, 300u);
  EXPECT_GT(num_moved, 20u);
  EXPECT_EQ(count.total(), 0);
}

}  // namespace
}  // namespace incipit
