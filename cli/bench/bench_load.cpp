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

// The gRPC call of one request of the load test. gRPC does not run two callbacks of a Call at the
// same time.
class BenchLoad::Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(BenchLoad& load, int32_t index, int32_t user, Time due)
      : load_(load), index_(index), user_(user), due_(due) {}

  void Start(v1::GenerateRequest request) {
    PrepareCall(load_.client_, context_);
    request_ = std::move(request);
    load_.stub_.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const int32_t num_tokens = NumTokens(response_);
    if (num_tokens > 0) NoteTokens(num_tokens);
    if (load_.plan_.on_end) KeepOutput();
    if (response_.has_usage()) {
      record_.prompt_tokens = response_.usage().prompt_tokens();
      record_.cached_tokens = response_.usage().cached_tokens();
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    succeeded_ = status.ok();
    end_ = Now();
    record_.is_done = true;
    record_.due = ToSeconds(due_ - load_.begin_);
    record_.total = ToSeconds(end_ - due_);
    if (!status.ok()) record_.error = DescribeError(load_.client_, status);
    load_.OnDone(index_, std::move(record_));
  }

  // The functions end() and end_time() return valid results only after OnDone().
  BenchEnd end() const { return {index_, user_, succeeded_, output_}; }
  Time end_time() const { return end_; }

 private:
  void KeepOutput() {
    for (const v1::Delta& delta : response_.deltas()) {
      output_.insert(output_.end(), delta.token_ids().begin(), delta.token_ids().end());
    }
  }

  // Records the arrival of a message with `num_tokens` output tokens. The time since the previous
  // message is divided equally among the `num_tokens` tokens.
  void NoteTokens(int32_t num_tokens) {
    const Time now = Now();
    if (record_.output_tokens == 0) {
      record_.first_token = ToSeconds(now - due_);
    } else {
      record_.inter_token.insert(record_.inter_token.end(), static_cast<size_t>(num_tokens),
                                 ToSeconds(now - last_tokens_) / num_tokens);
    }
    last_tokens_ = now;
    record_.output_tokens += static_cast<uint32_t>(num_tokens);
    load_.num_output_tokens_.fetch_add(num_tokens, std::memory_order_relaxed);
  }

  BenchLoad& load_;
  const int32_t index_, user_;
  const Time due_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  BenchRecord record_;
  Time last_tokens_{}, end_{};
  std::vector<uint32_t> output_;  // the output tokens; empty if the plan has no `on_end`
  bool succeeded_ = false;
};

BenchLoad::BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan)
    : stub_(stub), client_(client), plan_(std::move(plan)), users_(plan_.num_users) {
  const MutexLock lock(mutex_);
  records_.resize(static_cast<size_t>(plan_.num_requests));
}

BenchLoad::~BenchLoad() = default;

BenchResult BenchLoad::Run(const std::function<void(const BenchProgress&)>& report) {
  begin_ = Now();
  next_report_ = report ? begin_ + kReportEvery : kNoDeadline;
  for (int32_t index = 0; index < plan_.num_requests; ++index) {
    ForgetEndedCalls();
    for (Time due = DueAt(index); Now() < due; due = DueAt(index)) Wait(due, report);
    StartCall(index, is_open() ? DueAt(index) : Now());
  }
  while (!calls_.empty()) Wait(kNoDeadline, report);
  const double seconds = ToSeconds(Now() - begin_);
  if (report) report(Progress());
  const MutexLock lock(mutex_);
  return {std::move(records_), seconds, is_open() ? 0 : plan_.num_users};
}

// Returns the time at which the next request, number `index`, may start. In a closed loop, this
// time can change when a request ends.
Time BenchLoad::DueAt(int32_t index) const {
  if (!is_open()) return users_.ready_at();
  return begin_ + FromSeconds(plan_.arrivals[static_cast<size_t>(index)]);
}

// Waits until a request has ended, the time `until` is reached, or a progress report is due. Calls
// `report` if a progress report is due.
void BenchLoad::Wait(Time until, const std::function<void(const BenchProgress&)>& report) {
  const Time wake_at = std::min(until, next_report_);
  {
    const MutexLock lock(mutex_);
    while (ended_.empty() && Now() < wake_at) {
      if (wake_at == kNoDeadline) {
        changed_.wait(mutex_);
      } else {
        changed_.wait_until(mutex_, wake_at);
      }
    }
  }
  ForgetEndedCalls();
  if (Now() < next_report_) return;
  report(Progress());
  next_report_ = Now() + kReportEvery;
}

void BenchLoad::StartCall(int32_t index, Time due) {
  const int32_t user = users_.Take();
  v1::GenerateRequest request = plan_.make_request(index, user);
  {
    const MutexLock lock(mutex_);
    ++progress_.num_in_flight;
  }
  auto& call = calls_[index];
  call = std::make_unique<Call>(*this, index, user, due);
  call->Start(std::move(request));
}

// Processes and deletes each call that has ended. The user of the call can then send another
// request after the think time.
void BenchLoad::ForgetEndedCalls() {
  std::vector<int32_t> ended;
  {
    const MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  for (const int32_t index : ended) {
    const auto call = calls_.find(index);
    const BenchEnd end = call->second->end();
    if (plan_.on_end) plan_.on_end(end);
    const double think_s = plan_.think_time ? plan_.think_time(index) : 0;
    users_.Release(end.user, call->second->end_time() + FromSeconds(think_s));
    calls_.erase(call);
  }
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
  progress.num_output_tokens = num_output_tokens_.load(std::memory_order_relaxed);
  progress.seconds = ToSeconds(Now() - begin_);
  return progress;
}

}  // namespace incipit
