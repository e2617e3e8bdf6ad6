#include "scheduler/waiting_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <vector>

namespace incipit {
namespace {

class Random {
 public:
  size_t Below(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_ = 7;
};

OrderKey KeyOf(int32_t priority, int64_t arrival_s, uint64_t order, int64_t aging_s) {
  Request request;
  request.priority = priority;
  request.arrival = Time(std::chrono::seconds(arrival_s));
  return MakeOrderKey(request, order, std::chrono::seconds(aging_s));
}

TEST(OrderKeyTest, ARequestGainsOneLevelOfPriorityInEachInterval) {
  EXPECT_LT(KeyOf(0, 0, 0, 10), KeyOf(1, 11, 1, 10));
  EXPECT_LT(KeyOf(1, 9, 1, 10), KeyOf(0, 0, 0, 10));
  EXPECT_LT(KeyOf(0, 0, 0, 10), KeyOf(3, 31, 1, 10));
  EXPECT_LT(KeyOf(3, 29, 1, 10), KeyOf(0, 0, 0, 10));
}

TEST(OrderKeyTest, WithoutAgingAHigherPriorityAlwaysGoesFirst) {
  EXPECT_LT(KeyOf(1, 1'000'000, 1, 0), KeyOf(0, 0, 0, 0));
  EXPECT_LT(KeyOf(0, 1, 1, 0), KeyOf(0, 2, 0, 0));
  EXPECT_LT(KeyOf(0, 1, 0, 0), KeyOf(0, 1, 1, 0));
}

TEST(WaitingQueueTest, EqualsSortedSetsAfterAnySequenceOfCalls) {
  constexpr size_t kNumSequences = 60;
  constexpr int32_t kNumTenants = 3;
  for (const int32_t window_max : {1, 4, 64}) {
    const std::vector<TokenId> tokens(kNumSequences);
    std::vector<SequenceGroup> groups(kNumSequences);
    std::vector<Sequence> sequences(kNumSequences);
    Random random;
    WaitingQueue queue(window_max);
    for (size_t i = 0; i < kNumSequences; ++i) {
      sequences[i].group = &groups[i];
      sequences[i].head = std::span(tokens).first(i);
      groups[i].standing.tenant = static_cast<int32_t>(i) % kNumTenants;
      groups[i].standing.key =
          KeyOf(static_cast<int32_t>(random.Below(3)), static_cast<int64_t>(random.Below(4)), i, 0);
      queue.ChangeRoom(groups[i].standing.tenant, 1);
    }
    const auto before = [](const Sequence* a, const Sequence* b) { return IsBefore(*a, *b); };
    using Expected = std::set<Sequence*, decltype(before)>;
    std::vector<Expected> expected(kNumTenants, Expected(before));
    for (int32_t step = 0; step < 20'000; ++step) {
      Sequence& sequence = sequences[random.Below(kNumSequences)];
      const int32_t tenant = sequence.group->standing.tenant;
      Expected& of_tenant = expected[static_cast<size_t>(tenant)];
      if (of_tenant.erase(&sequence) > 0) {
        queue.Remove(sequence);
      } else {
        of_tenant.insert(&sequence);
        queue.Push(sequence);
      }
      size_t num_expected = 0;
      for (const Expected& waiting : expected) num_expected += waiting.size();
      ASSERT_EQ(queue.size(), static_cast<int32_t>(num_expected));
      ASSERT_EQ(std::ranges::count(queue.tenants(), tenant), of_tenant.empty() ? 0 : 1);
      int64_t num_tokens = 0;
      for (const Sequence* waiting : of_tenant) num_tokens += waiting->num_tokens();
      ASSERT_EQ(queue.of(tenant).num_tokens(), num_tokens);
      const auto window = queue.of(tenant).window();
      ASSERT_EQ(window.size(), std::min(of_tenant.size(), static_cast<size_t>(window_max)));
      ASSERT_TRUE(std::ranges::equal(
          window, std::vector<Sequence*>(of_tenant.begin(),
                                         std::next(of_tenant.begin(), std::ssize(window)))));
    }
  }
}

}  // namespace
}  // namespace incipit
