#include "server/gateway/gateway_load.h"

#include <algorithm>
#include <limits>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr Duration kRateInterval = std::chrono::seconds(1);

int32_t Clamped(int64_t value) {
  return static_cast<int32_t>(std::min<int64_t>(value, std::numeric_limits<int32_t>::max()));
}

}  // namespace

LoadFigures LoadMeter::Read() {
  LoadFigures out;
  out.engine = engine_.Load();
  out.num_used_tokens = int64_t{out.engine.num_used_blocks} * out.engine.block_size;
  out.num_tokens_max = int64_t{out.engine.num_blocks} * out.engine.block_size;
  if (out.num_tokens_max > 0) {
    out.token_usage =
        static_cast<double>(out.num_used_tokens) / static_cast<double>(out.num_tokens_max);
  }
  out.tokens_per_second = Rate();
  out.cache_hit_rate = out.engine.hit_ratios.minute;
  return out;
}

double LoadMeter::Rate() {
  const Sample now{clock_.Now(), metrics_.num_generated_tokens()};
  MutexLock lock(mutex_);
  if (now.time - latest_.time >= kRateInterval) {
    previous_ = latest_;
    latest_ = now;
  }
  const double seconds = ToSeconds(now.time - previous_.time);
  if (seconds <= 0) return 0;
  return static_cast<double>(now.num_tokens - previous_.num_tokens) / seconds;
}

void FillLoad(const LoadFigures& figures, int32_t running_max,
              vllm::grpc::engine::SchedulerLoad& out) {
  const EngineLoad& engine = figures.engine;
  out.set_num_running_reqs(engine.num_running);
  out.set_num_waiting_reqs(engine.num_waiting);
  out.set_num_total_reqs(engine.num_running + engine.num_waiting);
  out.set_num_used_tokens(Clamped(figures.num_used_tokens));
  out.set_max_total_num_tokens(Clamped(figures.num_tokens_max));
  out.set_token_usage(figures.token_usage);
  out.set_gen_throughput(figures.tokens_per_second);
  out.set_cache_hit_rate(figures.cache_hit_rate);
  out.set_utilization(static_cast<double>(engine.num_running) / running_max);
  out.set_max_running_requests(running_max);
  out.set_num_waiting_uncached_tokens(Clamped(engine.num_waiting_prompt_tokens));
}

KvLoad KvLoadOf(const LoadFigures& figures, int32_t running_max) {
  const EngineLoad& engine = figures.engine;
  KvLoad out;
  if (engine.failed) {
    out.status = Refuse(Reason::kEngineFailed, "the engine has failed");
  } else if (engine.draining) {
    out.status = Refuse(Reason::kDraining, "the server is draining");
  }
  out.load.set_running_requests(static_cast<uint32_t>(engine.num_running));
  out.load.set_waiting_requests(static_cast<uint32_t>(engine.num_waiting));
  out.load.set_waiting_uncached_tokens(
      static_cast<uint32_t>(Clamped(engine.num_waiting_prompt_tokens)));
  out.load.set_token_usage(figures.token_usage);
  out.load.set_active_token_usage(figures.token_usage);
  out.load.set_gen_throughput(figures.tokens_per_second);
  out.load.set_max_running_requests(static_cast<uint32_t>(running_max));
  out.load.set_cache_hit_rate(figures.cache_hit_rate);
  out.load.set_num_used_tokens(Clamped(figures.num_used_tokens));
  out.load.set_max_total_num_tokens(Clamped(figures.num_tokens_max));
  return out;
}

}  // namespace incipit
