#include "cli/bench/bench_load.h"

#include <algorithm>
#include <utility>

namespace incipit {
namespace {

constexpr Duration kReportEvery = std::chrono::milliseconds(200);

Time Now() { return std::chrono::steady_clock::now(); }

int32_t NumTokens(const v1::GenerateResponse& response) {
  int32_t count = 0;
  for (const v1::Delta& delta : response.deltas()) count += delta.token_ids_size();
  return count;
}

}  // namespace

// A request of the load test that has been sent and has not ended. gRPC calls the methods of a Call
// one at a time.
class BenchLoad::Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(BenchLoad& load, int32_t index, Time due) : load_(load), index_(index), due_(due) {}

  void Start() {
    PrepareCall(load_.client_, context_);
    request_ = load_.plan_.make_request(index_);
    load_.stub_.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const int32_t num_tokens = NumTokens(response_);
    if (num_tokens > 0) NoteTokens(num_tokens);
    if (response_.has_usage()) {
      record_.prompt_tokens = response_.usage().prompt_tokens();
      record_.cached_tokens = response_.usage().cached_tokens();
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    record_.is_done = true;
    record_.due = ToSeconds(due_ - load_.begin_);
    record_.total = ToSeconds(Now() - due_);
    if (!status.ok()) record_.error = DescribeError(load_.client_, status);
    load_.OnDone(index_, std::move(record_));
  }

 private:
  // Records the arrival of a message with `num_tokens` output tokens. The time since the previous
  // message is divided equally among the `num_tokens` tokens.
  void NoteTokens(int32_t num_tokens) {
    const Time now = Now();
    int32_t num_gaps = num_tokens;
    if (record_.output_tokens == 0) {
      record_.first_token = ToSeconds(now - due_);
      last_tokens_ = now;
      --num_gaps;
    }
    for (int32_t i = 0; i < num_gaps; ++i) {
      record_.inter_token.push_back(ToSeconds(now - last_tokens_) / num_gaps);
    }
    last_tokens_ = now;
    record_.output_tokens += static_cast<uint32_t>(num_tokens);
    load_.OnTokens(num_tokens);
  }

  BenchLoad& load_;
  const int32_t index_;
  const Time due_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  BenchRecord record_;
  Time last_tokens_{};
};

BenchLoad::BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan)
    : stub_(stub), client_(client), plan_(std::move(plan)) {
  const MutexLock lock(mutex_);
  records_.resize(static_cast<size_t>(plan_.num_requests));
}

BenchLoad::~BenchLoad() = default;

BenchResult BenchLoad::Run(const std::function<void(const BenchProgress&)>& report) {
  begin_ = Now();
  for (int32_t index = 0; index < plan_.num_requests; ++index) {
    const bool is_open = !plan_.arrivals.empty();
    const Time due =
        is_open ? begin_ + FromSeconds(plan_.arrivals[static_cast<size_t>(index)]) : kNoDeadline;
    while (!WaitUntilDue(index, due, report)) {
    }
    StartCall(index, is_open ? due : Now());
  }
  while (!WaitUntilDue(plan_.num_requests, kNoDeadline, report)) {
  }
  const double seconds = ToSeconds(Now() - begin_);
  const MutexLock lock(mutex_);
  return {std::move(records_), seconds, plan_.arrivals.empty() ? plan_.concurrency : 0};
}

// Waits until request `index` may start, and returns true. If `index` equals the number of
// requests, waits until all requests have ended. Returns false if a progress report was due first.
// The caller must then call WaitUntilDue() again.
bool BenchLoad::WaitUntilDue(int32_t index, Time due,
                             const std::function<void(const BenchProgress&)>& report) {
  const Time report_at = report ? Now() + kReportEvery : kNoDeadline;
  const Time until = std::min(due, report_at);
  const auto is_due = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (index == plan_.num_requests) return progress_.num_done == plan_.num_requests;
    return plan_.arrivals.empty() ? progress_.num_in_flight < plan_.concurrency : Now() >= due;
  };
  bool done = false;
  {
    const MutexLock lock(mutex_);
    while (!(done = is_due())) {
      if (until == kNoDeadline) {
        changed_.wait(mutex_);
      } else if (changed_.wait_until(mutex_, until) == std::cv_status::timeout) {
        done = is_due();
        break;
      }
    }
  }
  if (report && (!done || index == plan_.num_requests)) report(Progress());
  return done;
}

void BenchLoad::StartCall(int32_t index, Time due) {
  {
    const MutexLock lock(mutex_);
    ++progress_.num_in_flight;
  }
  ForgetEndedCalls();
  auto& call = calls_[index];
  call = std::make_unique<Call>(*this, index, due);
  call->Start();
}

void BenchLoad::ForgetEndedCalls() {
  std::vector<int32_t> ended;
  {
    const MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  for (const int32_t index : ended) calls_.erase(index);
}

void BenchLoad::OnTokens(int64_t num_tokens) {
  const MutexLock lock(mutex_);
  progress_.num_output_tokens += num_tokens;
}

void BenchLoad::OnDone(int32_t index, BenchRecord record) {
  const MutexLock lock(mutex_);
  ++progress_.num_done;
  --progress_.num_in_flight;
  if (!record.error.empty()) ++progress_.num_errors;
  records_[static_cast<size_t>(index)] = std::move(record);
  ended_.push_back(index);
  // Call notify_all() before the mutex is unlocked, because another thread may destroy this object
  // as soon as the mutex is unlocked.
  changed_.notify_all();
}

BenchProgress BenchLoad::Progress() {
  const MutexLock lock(mutex_);
  BenchProgress progress = progress_;
  progress.seconds = ToSeconds(Now() - begin_);
  return progress;
}

}  // namespace incipit
