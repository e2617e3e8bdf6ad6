#include "scheduler/waiting_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace incipit {
namespace {

TEST(WaitingQueueTest, EqualsASortedSetAfterAnySequenceOfCalls) {
  constexpr size_t kNumSequences = 40;
  std::vector<SequenceGroup> groups(kNumSequences);
  std::vector<Sequence> sequences(kNumSequences);
  uint64_t state = 7;
  const auto random = [&state](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  for (size_t i = 0; i < kNumSequences; ++i) {
    sequences[i].group = &groups[i];
    Request request;
    request.priority = static_cast<int32_t>(random(3));
    request.arrival = Time(std::chrono::seconds(random(4)));
    groups[i].request = std::make_shared<const Request>(std::move(request));
    groups[i].order = i;
  }
  const auto before = [](const Sequence* a, const Sequence* b) { return IsBefore(*a, *b); };
  std::set<Sequence*, decltype(before)> expected(before);
  WaitingQueue queue;
  for (int32_t step = 0; step < 50'000; ++step) {
    Sequence& sequence = sequences[random(kNumSequences)];
    if (expected.erase(&sequence) > 0) {
      queue.Remove(sequence);
    } else {
      expected.insert(&sequence);
      queue.Push(sequence);
    }
    ASSERT_EQ(queue.size(), static_cast<int32_t>(expected.size()));
    ASSERT_EQ(queue.empty() ? nullptr : &queue.front(),
              expected.empty() ? nullptr : *expected.begin());
  }
}

}  // namespace
}  // namespace incipit
