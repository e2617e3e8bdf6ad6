// Tests requests with options for the prefix cache, and what clients and operators can read about
// the cache.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using grpc::StatusCode;

constexpr int32_t kPromptTokens = 48;  // three blocks

// Returns a prompt. Prompts with different values of `first` have no block in common.
std::vector<TokenId> CachePrompt(int32_t first, int32_t num_tokens = kPromptTokens) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < num_tokens; ++i) prompt.push_back(kFirstByte + first + i % 180);
  return prompt;
}

// Returns a configuration with 12 cache blocks and the policy `lru`, whose evictions a test can
// predict.
TestServerConfig SmallCache() {
  TestServerConfig config;
  config.options.prefix_cache_policy = EvictionPolicyKind::kLru;
  config.num_blocks = 12;
  return config;
}

Reply AskFor(TestServer& server, int32_t first) {
  Reply reply = Ask(server.inference(), Greedy(CachePrompt(first), 2));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  return reply;
}

// Sends four other prompts, which need more blocks than the cache of SmallCache has.
void AskForOthers(TestServer& server) {
  for (int32_t first = 30; first < 34; ++first) AskFor(server, first);
}

v1::GenerateRequest WithRetention(int32_t first, const v1::CacheRetention& hint) {
  v1::GenerateRequest request = Greedy(CachePrompt(first), 2);
  *request.mutable_cache()->mutable_retention() = hint;
  return request;
}

v1::CacheRetention Pinned() {
  v1::CacheRetention hint;
  hint.mutable_pin()->set_seconds(60);
  return hint;
}

TEST(UsageTest, TheRestOfAPromptThatIsCachedWholeIsCopied) {
  TestServer server;
  const Reply first = AskFor(server, 0);
  EXPECT_EQ(first.usage.cached_tokens(), 0u);
  EXPECT_EQ(first.usage.copied_tokens(), 0u);
  const Reply second = AskFor(server, 0);
  EXPECT_EQ(second.usage.cached_tokens(), 47u);
  EXPECT_EQ(second.usage.copied_tokens(), 15u);
  EXPECT_EQ(server.Metric("incipit_prefix_cache_copied_tokens_total"), 15);
}

TEST(UsageTest, NothingIsCopiedWhereCopyOnWriteIsOff) {
  TestServerConfig config;
  config.options.copy_on_write = false;
  TestServer server(std::move(config));
  AskFor(server, 0);
  const Reply second = AskFor(server, 0);
  EXPECT_EQ(second.usage.cached_tokens(), 32u);
  EXPECT_EQ(second.usage.copied_tokens(), 0u);
}

TEST(UsageTest, APromptThatWasNeverThereIsUnseen) {
  TestServer server;
  const v1::CacheMiss miss = AskFor(server, 0).usage.cache_miss();
  EXPECT_EQ(miss.reason(), v1::CACHE_MISS_REASON_UNSEEN);
  EXPECT_EQ(miss.first_missing_block(), 0u);
  EXPECT_TRUE(miss.has_first_missing_block());
  EXPECT_EQ(miss.first_differing_token(), 0u);
  EXPECT_FALSE(miss.has_evicted_seconds_ago());
}

TEST(UsageTest, TheFirstTokenThatDiffersIsNamed) {
  TestServer server;
  AskFor(server, 0);
  std::vector<TokenId> prompt = CachePrompt(0, 60);
  prompt[37] = kFirstByte + 200;
  const Reply reply = Ask(server.inference(), Greedy(prompt, 2));
  EXPECT_EQ(reply.usage.cached_tokens(), 37u);
  EXPECT_EQ(reply.usage.copied_tokens(), 5u);
  const v1::CacheMiss& miss = reply.usage.cache_miss();
  EXPECT_EQ(miss.reason(), v1::CACHE_MISS_REASON_UNSEEN);
  EXPECT_EQ(miss.first_missing_block(), 2u);
  EXPECT_EQ(miss.first_differing_token(), 37u);
}

TEST(UsageTest, WhatIsFoundWholeHasNoMiss) {
  TestServer server;
  AskFor(server, 0);
  const v1::CacheMiss miss = AskFor(server, 0).usage.cache_miss();
  EXPECT_EQ(miss.reason(), v1::CACHE_MISS_REASON_NONE);
  EXPECT_FALSE(miss.has_first_missing_block());
  EXPECT_FALSE(miss.has_first_differing_token());
}

TEST(UsageTest, APromptThatMadeRoomForOthersWasEvicted) {
  TestServer server(SmallCache());
  AskFor(server, 0);
  AskForOthers(server);
  const v1::CacheMiss miss = AskFor(server, 0).usage.cache_miss();
  EXPECT_EQ(miss.reason(), v1::CACHE_MISS_REASON_EVICTED);
  EXPECT_TRUE(miss.has_evicted_seconds_ago());
  EXPECT_GE(miss.evicted_seconds_ago(), 0);
  EXPECT_LT(miss.evicted_seconds_ago(), 600);
  EXPECT_GT(server.Metric("incipit_prefix_cache_evictions_total{reason=\"capacity\"}"), 0);
  EXPECT_GT(server.Metric("incipit_prefix_cache_eviction_age_seconds_count"), 0);
  EXPECT_GT(server.Metric("incipit_prefix_cache_eviction_idle_seconds_count"), 0);
  EXPECT_GT(server.Metric("incipit_prefix_cache_regret_blocks_total"), 0);
}

TEST(UsageTest, WhatOtherTenantsHaveIsNotReported) {
  TestServer server;
  AskFor(server, 0);
  const Reply reply = Ask(server.inference(), Greedy(CachePrompt(0), 2), "other");
  EXPECT_EQ(reply.usage.cache_miss().reason(), v1::CACHE_MISS_REASON_UNSEEN);
  EXPECT_EQ(reply.usage.cache_miss().first_differing_token(), 0u);
}

TEST(UsageTest, AnotherSaltIsNamedAsTheReason) {
  TestServer server;
  AskFor(server, 0);
  v1::GenerateRequest request = Greedy(CachePrompt(0), 2);
  request.mutable_cache()->set_salt("salt");
  const v1::CacheMiss miss = Ask(server.inference(), request).usage.cache_miss();
  EXPECT_EQ(miss.reason(), v1::CACHE_MISS_REASON_OTHER_NAMESPACE);
  EXPECT_EQ(miss.first_missing_block(), 0u);
}

TEST(UsageTest, ARequestNotToReadTheCacheDoesNotMiss) {
  TestServer server;
  AskFor(server, 0);
  v1::GenerateRequest request = Greedy(CachePrompt(0), 2);
  request.mutable_cache()->set_skip_read(true);
  EXPECT_FALSE(Ask(server.inference(), request).usage.has_cache_miss());
  v1::GenerateRequest scored = Greedy(CachePrompt(0), 2);
  scored.mutable_output()->set_prompt_logprobs(0);
  EXPECT_FALSE(Ask(server.inference(), scored).usage.has_cache_miss());

  TestServerConfig config;
  config.options.prefix_cache = false;
  TestServer without(std::move(config));
  EXPECT_FALSE(AskFor(without, 0).usage.has_cache_miss());
}

TEST(RetentionTest, WhatIsPinnedOutlivesWhatCameLater) {
  TestServer server(SmallCache());
  Ask(server.inference(), WithRetention(0, Pinned()));
  EXPECT_EQ(server.Load().retained_blocks(), 3u);
  EXPECT_EQ(server.Metric("incipit_kv_blocks{state=\"retained\"}"), 3);
  EXPECT_EQ(server.Metric("incipit_kv_blocks{state=\"cached\"}"), 0);
  EXPECT_EQ(server.Metric("incipit_kv_blocks{state=\"free\"}"), 9);
  AskForOthers(server);
  EXPECT_EQ(AskFor(server, 0).usage.cached_tokens(), 47u);
}

TEST(RetentionTest, WhatIsNotWantedGoesBeforeWhatIsOlder) {
  TestServer server(SmallCache());
  AskFor(server, 0);
  v1::CacheRetention hint;
  hint.set_priority(0);
  Ask(server.inference(), WithRetention(1, hint));
  for (int32_t first = 30; first < 32; ++first) AskFor(server, first);
  EXPECT_GT(server.Metric("incipit_prefix_cache_evictions_total{reason=\"priority\"}"), 0);
  EXPECT_EQ(AskFor(server, 0).usage.cached_tokens(), 47u);
  EXPECT_LT(AskFor(server, 1).usage.cached_tokens(), 47u);
}

TEST(RetentionTest, ATenantKeepsNoMoreThanItsShare) {
  TestServerConfig config = SmallCache();
  config.options.cache_retention_share_max = 0.25;  // three blocks
  TestServer server(std::move(config));
  Ask(server.inference(), WithRetention(0, Pinned()), "one");
  Ask(server.inference(), WithRetention(1, Pinned()), "one");
  EXPECT_EQ(server.Load().retained_blocks(), 3u);
  Ask(server.inference(), WithRetention(1, Pinned()), "two");
  EXPECT_EQ(server.Load().retained_blocks(), 6u);
}

TEST(RetentionTest, TenantsThatAreNotIsolatedHaveOneShare) {
  TestServerConfig config = SmallCache();
  config.options.isolate_tenants = false;
  TestServer server(std::move(config));
  Ask(server.inference(), WithRetention(0, Pinned()), "one");
  Ask(server.inference(), WithRetention(1, Pinned()), "two");
  EXPECT_EQ(server.Load().retained_blocks(), 3u);
}

TEST(RetentionTest, HintsAndOutputsAreKeptByEveryPolicy) {
  for (const auto& [kind, policy] : kEvictionPolicyNames) {
    TestServerConfig config = SmallCache();
    config.options.prefix_cache_policy = kind;
    TestServer server(std::move(config));
    Ask(server.inference(), WithRetention(0, Pinned()));
    for (int i = 0; i < 40; ++i) {
      const int32_t first = 30 + i * i % 7;
      EXPECT_EQ(AskFor(server, first).choices.at(0).ids, Expected(CachePrompt(first), 2)) << policy;
    }
    EXPECT_EQ(AskFor(server, 0).usage.cached_tokens(), 47u) << policy;
    EXPECT_GT(server.Metric("incipit_prefix_cache_evictions_total{reason=\"capacity\"}"), 0);
  }
}

TEST(CacheMetricsTest, AResetIsAReasonOfItsOwnAndCountsAtOnce) {
  TestServer server;
  AskFor(server, 0);
  grpc::ClientContext context;
  v1::ResetPrefixCacheResponse response;
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
  ASSERT_TRUE(server.admin().ResetPrefixCache(&context, {}, &response).ok());
  EXPECT_EQ(server.Metric("incipit_prefix_cache_evictions_total{reason=\"reset\"}"), 3);
  EXPECT_EQ(server.Metric("incipit_kv_blocks{state=\"cached\"}"), 0);
}

TEST(CacheMetricsTest, GetLoadReportsTheSameTotals) {
  TestServer server(SmallCache());
  EXPECT_EQ(server.Load().evicted_blocks_total(), 0u);
  EXPECT_EQ(server.Load().regret_blocks_total(), 0u);
  AskFor(server, 0);
  AskForOthers(server);
  AskFor(server, 0);
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
  grpc::ClientContext context;
  v1::ResetPrefixCacheResponse response;
  ASSERT_TRUE(server.admin().ResetPrefixCache(&context, {}, &response).ok());
  const auto evicted = [&](const char* reason) {
    return server.Metric(
        fmt::format("incipit_prefix_cache_evictions_total{{reason=\"{}\"}}", reason));
  };
  const v1::GetLoadResponse load = server.Load();
  EXPECT_GT(evicted("capacity"), 0);
  EXPECT_GT(evicted("reset"), 0);
  EXPECT_EQ(static_cast<double>(load.evicted_blocks_total()),
            evicted("capacity") + evicted("priority") + evicted("ttl") + evicted("reset"));
  EXPECT_EQ(static_cast<double>(load.regret_blocks_total()),
            server.Metric("incipit_prefix_cache_regret_blocks_total"));
  EXPECT_GT(load.regret_blocks_total(), 0u);
}

TEST(CacheMetricsTest, TheRatioOfTheLastMinutesIsServed) {
  TestServer server;
  EXPECT_EQ(server.Metric("incipit_prefix_cache_hit_ratio{window=\"1m\"}"), 0);
  AskFor(server, 0);
  AskFor(server, 0);
  for (const char* const window : {"1m", "10m", "1h"}) {
    const std::string sample =
        "incipit_prefix_cache_hit_ratio{window=\"" + std::string(window) + "\"}";
    EXPECT_NEAR(server.Metric(sample), 47.0 / 96, 1e-4) << window;
  }
  EXPECT_EQ(server.Metric("incipit_prefix_cache_hit_ratio_alarm"), 0);
}

v1::GetLoadRequest PromptLoad(const std::vector<TokenId>& prompt) {
  v1::GetLoadRequest request;
  for (const TokenId token : prompt) {
    request.mutable_token_ids()->add_ids(static_cast<uint32_t>(token));
  }
  return request;
}

struct Previewed {
  grpc::Status status;
  v1::GetLoadResponse load;
};

Previewed Preview(TestServer& server, const v1::GetLoadRequest& request,
                  const std::string& tenant = "") {
  grpc::ClientContext context;
  if (!tenant.empty()) context.AddMetadata("x-tenant-id", tenant);
  Previewed out;
  out.status = server.admin().GetLoad(&context, request, &out.load);
  return out;
}

TEST(PreviewTest, IsThereOnlyIfAskedFor) {
  TestServer server;
  EXPECT_FALSE(Preview(server, {}).load.has_admission());
}

TEST(PreviewTest, ANumberOfTokensTakesBlocksOfWhichNoneIsCached) {
  TestServer server(SmallCache());
  v1::GetLoadRequest request;
  request.set_prompt_tokens(97);
  v1::AdmissionPreview preview = Preview(server, request).load.admission();
  EXPECT_TRUE(preview.fits());
  EXPECT_EQ(preview.blocks_needed(), 7u);
  EXPECT_EQ(preview.blocks_evicted(), 0u);
  AskFor(server, 0);
  request.set_prompt_tokens(160);
  preview = Preview(server, request).load.admission();
  EXPECT_TRUE(preview.fits());
  EXPECT_EQ(preview.blocks_needed(), 10u);
  EXPECT_EQ(preview.blocks_evicted(), 1u);
  request.set_prompt_tokens(4294967295u);
  preview = Preview(server, request).load.admission();
  EXPECT_FALSE(preview.fits());
  EXPECT_EQ(preview.blocks_needed(), 268435456u);
}

TEST(PreviewTest, MoreBlocksThanAnIntegerHoldsDoNotFit) {
  TestServerConfig config;
  config.block_size = 1;
  TestServer server(std::move(config));
  v1::GetLoadRequest request;
  request.set_prompt_tokens(4294967295u);
  const v1::AdmissionPreview preview = Preview(server, request).load.admission();
  EXPECT_FALSE(preview.fits());
  EXPECT_EQ(preview.blocks_needed(), 2147483647u);
}

TEST(PreviewTest, APromptIsLookedUpForItsTenantAndSalt) {
  TestServer server(SmallCache());
  AskFor(server, 0);
  v1::GetLoadRequest request = PromptLoad(CachePrompt(0, 100));
  v1::AdmissionPreview preview = Preview(server, request).load.admission();
  EXPECT_TRUE(preview.fits());
  EXPECT_EQ(preview.cached_tokens(), 48u);
  EXPECT_EQ(preview.blocks_needed(), 7u);
  EXPECT_EQ(preview.blocks_evicted(), 0u);
  EXPECT_EQ(Preview(server, request, "other").load.admission().cached_tokens(), 0u);
  request.set_cache_salt("salt");
  EXPECT_EQ(Preview(server, request).load.admission().cached_tokens(), 0u);
}

TEST(PreviewTest, AskingChangesNothing) {
  TestServer server(SmallCache());
  AskFor(server, 0);
  AskFor(server, 1);
  for (int i = 0; i < 100; ++i) {
    const v1::AdmissionPreview preview =
        Preview(server, PromptLoad(CachePrompt(0, 150))).load.admission();
    ASSERT_EQ(preview.cached_tokens(), 48u);
    ASSERT_EQ(preview.blocks_evicted(), 1u);
  }
  EXPECT_EQ(server.Load().cached_blocks(), 6u);
  EXPECT_EQ(server.Metric("incipit_prefix_cache_queried_tokens_total"), 96);
  // The preview of prompt 0 does not count as a use. Prompt 0 is therefore still the first prompt
  // to be evicted.
  AskFor(server, 2);
  AskFor(server, 3);
  EXPECT_EQ(AskFor(server, 1).usage.cached_tokens(), 47u);
  EXPECT_LT(AskFor(server, 0).usage.cached_tokens(), 47u);
}

TEST(PreviewTest, ACallThatEndsBeforeItsReplyIsLetGo) {
  TestServer server(SmallCache());
  server.gate().Close();
  std::thread client([&] { EXPECT_TRUE(AskFor(server, 0).status.ok()); });
  server.gate().AwaitWaiting();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::GetLoadResponse response;
  const grpc::Status status =
      server.admin().GetLoad(&context, PromptLoad(CachePrompt(0)), &response);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  server.gate().Open();
  client.join();
  EXPECT_TRUE(Preview(server, PromptLoad(CachePrompt(0))).status.ok());
}

TEST(PreviewTest, WhatGenerateWouldRefuseIsRefused) {
  TestServer server(SmallCache());
  const auto field = [&](const v1::GetLoadRequest& request, const std::string& tenant = "") {
    const grpc::Status status = Preview(server, request, tenant).status;
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    return FieldOf(status);
  };
  v1::GetLoadRequest request;
  request.set_prompt_tokens(0);
  EXPECT_EQ(field(request), "prompt_tokens");
  request = PromptLoad({});
  request.mutable_token_ids();
  EXPECT_EQ(field(request), "token_ids.ids");
  EXPECT_EQ(field(PromptLoad({5, kByteVocab})), "token_ids.ids[1]");
  EXPECT_EQ(field(PromptLoad(CachePrompt(0, 12 * 16))), "token_ids.ids");
  EXPECT_EQ(field(PromptLoad(CachePrompt(0)), "no/name"), "x-tenant-id");
  request = PromptLoad(CachePrompt(0));
  request.set_cache_salt(std::string(257, 's'));
  EXPECT_EQ(field(request), "cache_salt");
}

}  // namespace
}  // namespace incipit
