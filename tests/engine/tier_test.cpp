// Tests the engine with a tier: stores after steps, loads before steps, and waits without steps.
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "tests/engine/engine_fixture.h"
#include "tests/support/fake_tier.h"

namespace incipit {
namespace {

// The chunks of EngineFixture::DefaultOptions: two blocks of 4 tokens.
const ChunkShape kShape = {
    .block_size = 4, .blocks_per_chunk = 2, .block_bytes = 4 * sizeof(uint64_t)};

// Runs each test with one step in flight and with two steps in flight.
class EngineTierTest : public testing::TestWithParam<int32_t> {
 protected:
  EngineOptions Options() const {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = GetParam();
    options.scheduler.load_wait_max = std::chrono::milliseconds(10);
    options.tier_drain_max = drain_max_;
    return options;
  }
  // Starts an engine with an empty cache. The tier keeps its chunks.
  EngineFixture& Restart() {
    fixture_ = std::make_unique<EngineFixture>(Options(), GetParam() == 2, tier_.get());
    return *fixture_;
  }
  void CreateTier(FakeTierOptions options) {
    options.shape = kShape;
    options.polls_max = 0;
    tier_ = std::make_unique<FakeTier>(options);
  }
  // Runs a request with a prompt of 33 tokens, and waits until its chunks are in the tier.
  void Fill() {
    EngineFixture& fixture = Restart();
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
    fixture.listener.WaitForEnd(1);
    fixture_.reset();
    tier_->Poll();
    ASSERT_EQ(tier_->num_chunks(), 4);
  }

  // Runs `requests` while the tier refuses all stores. Then ends the engine, which may store its
  // chunks.
  void RunAndDrain(const std::vector<Request>& requests) {
    tier_->AcceptStores(0);
    EngineFixture& fixture = Restart();
    for (const Request& request : requests) {
      ASSERT_TRUE(fixture.Submit(request).ok());
      fixture.listener.WaitForEnd(static_cast<uint64_t>(request.id));
    }
    ASSERT_EQ(tier_->num_chunks(), 0);
    tier_->AcceptStores(-1);
    fixture_.reset();
    for (int32_t i = 0; i < 10; ++i) tier_->Poll();
  }

  std::unique_ptr<FakeTier> tier_;
  Duration drain_max_{};
  std::unique_ptr<EngineFixture> fixture_;  // uses tier_
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineTierTest, testing::Values(1, 2));

TEST_P(EngineTierTest, ANewEngineLoadsTheChunksOfAnEarlierEngine) {
  CreateTier({});
  Fill();
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(4, 25, 4)).ok());  // the same prefix
  fixture.listener.WaitForEnd(1);
  fixture.listener.WaitForEnd(4);
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens,
            EngineFixture::Expected(EngineFixture::Ask(1, 33, 4)));
  EXPECT_EQ(fixture.listener.OutputOf(4).tokens,
            EngineFixture::Expected(EngineFixture::Ask(4, 25, 4)));
  EXPECT_EQ(fixture.listener.AdmissionOf(1).num_cached_tokens, 32);
  EXPECT_GE(fixture.listener.AdmissionOf(1).num_loaded_tokens, 8);
  fixture_.reset();
  EXPECT_EQ(tier_->num_tickets(), 0);
}

// Staging has room for 1 of 4 chunks, so the prefix arrives in 4 parts.
TEST_P(EngineTierTest, APrefixLargerThanStagingArrivesInParts) {
  CreateTier({.shape = kShape, .staging_slots = 1});
  for (uint64_t id = 1; tier_->num_chunks() < 4; ++id) {
    EngineFixture& fixture = Restart();
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
    fixture.listener.WaitForEnd(1);
    fixture_.reset();
    tier_->Poll();
    ASSERT_LT(id, 100u);
  }
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  fixture.listener.WaitForEnd(1);
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens,
            EngineFixture::Expected(EngineFixture::Ask(1, 33, 4)));
  EXPECT_EQ(fixture.listener.AdmissionOf(1).num_loaded_tokens, 32);
  fixture_.reset();
  EXPECT_EQ(tier_->num_tickets(), 0);
}

TEST_P(EngineTierTest, APreviewReportsTheTokensThatWouldBeLoaded) {
  CreateTier({});
  Fill();
  EngineFixture& fixture = Restart();
  const auto preview = [&fixture](Request request) {
    std::promise<AdmissionPreview> result;
    EXPECT_TRUE(fixture
                    .Preview(std::move(request),
                             [&](const AdmissionPreview& reply) { result.set_value(reply); })
                    .ok());
    return result.get_future().get();
  };
  EXPECT_EQ(preview(EngineFixture::Ask(1, 33, 4)).loadable_tokens, 32);
  EXPECT_EQ(preview(EngineFixture::Ask(1, 33, 4)).cached_tokens, 0);
  EXPECT_EQ(preview(EngineFixture::Ask(1, 32, 4)).loadable_tokens, 24);  // computes the last token
  EXPECT_EQ(preview(EngineFixture::Ask(2, 33, 4)).loadable_tokens, 0);
  Request fresh = EngineFixture::Ask(1, 33, 4);
  fresh.read_cache = false;
  EXPECT_EQ(preview(fresh).loadable_tokens, 0);
  EXPECT_EQ(tier_->num_loads(), 0);
  // The first 13 tokens are then on the device, in 3 full blocks of 4 tokens.
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 13, 1)).ok());
  fixture.listener.WaitForEnd(1);
  const AdmissionPreview part = preview(EngineFixture::Ask(4, 33, 4));
  EXPECT_EQ(part.cached_tokens + part.loadable_tokens, 32);
  EXPECT_GE(part.cached_tokens, 12);
}

// No other event wakes the engine while the load hangs. The wait ends at its time limit.
TEST_P(EngineTierTest, ALoadThatHangsDelaysARequestForALimitedTime) {
  CreateTier({});
  Fill();
  tier_->HangLoads();
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  // The engine may look at the clock before or after each change.
  auto end = std::async(std::launch::async, [&] { fixture.listener.WaitForEnd(1); });
  while (end.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    fixture.clock.Advance(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens,
            EngineFixture::Expected(EngineFixture::Ask(1, 33, 4)));
  EXPECT_EQ(fixture.listener.AdmissionOf(1).num_loaded_tokens, 0);
  EXPECT_EQ(fixture.listener.AdmissionOf(1).miss.reason, MissReason::kLoadFailed);
}

TEST_P(EngineTierTest, ACancelEndsTheWaitForALoad) {
  CreateTier({});
  Fill();
  tier_->HangLoads();
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  fixture.engine->Cancel(RequestId{1});
  fixture.listener.WaitForEnd(1);
  EXPECT_EQ(fixture.listener.OutputOf(1).finish, FinishReason::kCancelled);
  fixture_.reset();
  EXPECT_EQ(tier_->num_tickets(), 0);
}

TEST_P(EngineTierTest, TheEndOfTheEngineEndsTheWaitForALoad) {
  CreateTier({});
  Fill();
  tier_->HangLoads();
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  fixture.engine.reset();
  EXPECT_EQ(fixture.listener.OutputOf(1).finish, FinishReason::kCancelled);
  fixture_.reset();
  EXPECT_EQ(tier_->num_tickets(), 0);
}

TEST_P(EngineTierTest, AResetOfTheCacheEmptiesTheTier) {
  CreateTier({});
  Fill();
  EngineFixture& fixture = Restart();
  std::promise<bool> was_reset;
  ASSERT_TRUE(fixture.engine->ResetPrefixCache([&](bool done) { was_reset.set_value(done); }).ok());
  EXPECT_TRUE(was_reset.get_future().get());
  fixture_.reset();
  EXPECT_EQ(tier_->num_chunks(), 0);
}

// The tier has one slot. So the engine must wait for each store.
TEST_P(EngineTierTest, TheEndOfTheEngineStoresChunksThatWereNotStored) {
  FakeTierOptions one_slot;
  one_slot.staging_slots = 1;
  CreateTier(one_slot);
  drain_max_ = std::chrono::seconds(10);
  RunAndDrain({EngineFixture::Ask(1, 33, 4), EngineFixture::Ask(2, 25, 4)});
  EXPECT_EQ(tier_->num_chunks(), 7);
  EngineFixture& fixture = Restart();
  for (const Request& request : {EngineFixture::Ask(1, 33, 4), EngineFixture::Ask(2, 25, 4)}) {
    const auto id = static_cast<uint64_t>(request.id);
    ASSERT_TRUE(fixture.Submit(request).ok());
    fixture.listener.WaitForEnd(id);
    EXPECT_EQ(fixture.listener.OutputOf(id).tokens, EngineFixture::Expected(request));
    EXPECT_GE(fixture.listener.AdmissionOf(id).num_loaded_tokens, 8);
  }
}

// A chunk that only one request contained must not count as used, because the tier would then keep
// the chunk longer than other chunks.
TEST_P(EngineTierTest, TheEndOfTheEngineUsesNoChunk) {
  CreateTier({});
  Fill();
  const int64_t num_touches = tier_->num_touches();
  CreateTier({});
  drain_max_ = std::chrono::seconds(10);
  Fill();
  EXPECT_EQ(tier_->num_touches(), num_touches);
}

TEST_P(EngineTierTest, WithoutTimeTheEndOfTheEngineStoresNothing) {
  CreateTier({});
  RunAndDrain({EngineFixture::Ask(1, 33, 4)});
  EXPECT_EQ(tier_->num_chunks(), 0);
}

// The second request extends the prefix of the first request.
TEST_P(EngineTierTest, TheEndOfTheEngineStoresNoChunksWithATimeToLive) {
  CreateTier({});
  drain_max_ = std::chrono::seconds(10);
  Request first = EngineFixture::Ask(1, 17, 1);
  first.retention.time_to_live = std::chrono::hours(1);
  RunAndDrain({first, EngineFixture::Ask(4, 33, 1), EngineFixture::Ask(2, 17, 1)});
  EXPECT_EQ(tier_->num_chunks(), 2) << "only the chunks of the third request";
}

TEST_P(EngineTierTest, AnEngineThatFailedStoresNothing) {
  CreateTier({});
  drain_max_ = std::chrono::seconds(10);
  tier_->AcceptStores(0);
  EngineFixture& fixture = Restart();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 33, 4)).ok());
  fixture.listener.WaitForEnd(1);
  fixture.gate.Fail({absl::InternalError("no device")});
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(2, 33, 4)).ok());
  EXPECT_FALSE(fixture.listener.WaitForFatal().ok());
  tier_->AcceptStores(-1);
  fixture_.reset();
  for (int32_t i = 0; i < 10; ++i) tier_->Poll();
  EXPECT_EQ(tier_->num_chunks(), 0);
}

}  // namespace
}  // namespace incipit
