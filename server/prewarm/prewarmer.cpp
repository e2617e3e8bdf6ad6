#include "server/prewarm/prewarmer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Time between two checks whether the disk cache has started.
constexpr Duration kTierPoll = std::chrono::milliseconds(10);
// Time after which a prompt is submitted again if a queue of the server was full.
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
// Name of the connection in the queue of the text threads, which connections share by bytes.
constexpr std::string_view kConnection = "prewarm";

bool IsQueueFull(Reason reason) {
  return reason == Reason::kQueueFull || reason == Reason::kTextQueueFull;
}

// Returns the number of bytes of the text or of the token ids in `prompt`.
int64_t NumBytes(const std::variant<std::string, TokensDraft>& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return std::ssize(*text);
  return std::ssize(std::get<TokensDraft>(prompt)) * static_cast<int64_t>(sizeof(TokenId));
}

void Log(const PrewarmFigures& figures) {
  spdlog::info(
      "--prewarm: {} prompts with {} tokens are in the cache after {:.2f} s: {} tokens computed, "
      "{} "
      "loaded from the disk cache, {} cached on the device; {} prompts failed",
      figures.num_done, figures.num_tokens, ToSeconds(figures.time), figures.num_computed_tokens(),
      figures.num_loaded_tokens, figures.num_device_tokens, figures.num_failed);
  if (figures.num_late == 0) return;
  spdlog::warn(
      "--prewarm: {} prompts were cancelled or not started, because --prewarm-timeout has passed "
      "or the server drains",
      figures.num_late);
}

}  // namespace

// The end of one prompt. `usage` is present if the request has computed the prompt.
struct Prewarmer::Ended {
  size_t index = 0;
  absl::Status status;
  std::optional<OutputUsage> usage;
};

struct Prewarmer::Inbox {
  Mutex mutex;
  std::condition_variable_any changed;
  std::vector<Ended> ended ABSL_GUARDED_BY(mutex);
  bool is_cancelled ABSL_GUARDED_BY(mutex) = false;
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;
};

// Discards the output of one prompt, and reports the end of the prompt.
class Prewarmer::Sink final : public OutputSink {
 public:
  Sink(std::shared_ptr<Inbox> inbox, size_t index) : inbox_(std::move(inbox)), index_(index) {}
  void SetSession(const std::shared_ptr<Session>& session) { session_ = session; }

  void Deliver(OutputPart part) override {
    if (part.usage) usage_ = part.usage;
    if (const std::shared_ptr<Session> session = session_.lock()) session->OnDelivered(true);
  }
  void End(const absl::Status& status) override {
    MutexLock lock(inbox_->mutex);
    inbox_->ended.push_back({.index = index_, .status = status, .usage = usage_});
    inbox_->changed.notify_one();
  }
  void Reset() override {
    if (const std::shared_ptr<Session> session = session_.lock()) session->OnCancelled();
  }

 private:
  const std::shared_ptr<Inbox> inbox_;
  const size_t index_;
  std::weak_ptr<Session> session_;
  std::optional<OutputUsage> usage_;
};

Prewarmer::Prewarmer(PrewarmOptions options, std::vector<PrewarmPrompt> prompts,
                     SessionStarter& starter, const Clock& clock)
    : options_(std::move(options)),
      prompts_(std::move(prompts)),
      starter_(starter),
      clock_(clock),
      inbox_(std::make_shared<Inbox>()) {}

Prewarmer::~Prewarmer() { Stop(); }

void Prewarmer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Prewarmer::Cancel() {
  MutexLock lock(inbox_->mutex);
  inbox_->is_cancelled = true;
  inbox_->changed.notify_one();
}

void Prewarmer::Stop() {
  {
    MutexLock lock(inbox_->mutex);
    inbox_->is_stopping = true;
    inbox_->changed.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

bool Prewarmer::is_stopping() const {
  MutexLock lock(inbox_->mutex);
  return inbox_->is_stopping;
}

void Prewarmer::Run() {
  const Time begin = clock_.Now();
  deadline_ = begin + options_.time_max;
  AwaitTier();
  do {
    StartPrompts();
  } while (!(running_.empty() && refused_.empty()) && AwaitEnds());
  // OnCancelled ends a session at once, so the results of these prompts are not awaited.
  for (const auto& [index, session] : running_) session->OnCancelled();
  running_.clear();
  figures_.num_late =
      static_cast<int32_t>(prompts_.size()) - figures_.num_done - figures_.num_failed;
  figures_.time = clock_.Now() - begin;
  prompts_ = {};
  if (is_stopping()) return;
  Log(figures_);
  if (options_.on_done) options_.on_done(figures_);
}

void Prewarmer::AwaitTier() {
  if (!options_.is_tier_starting) return;
  const Time end = clock_.Now() + FromSeconds(ToSeconds(options_.time_max) * kPrewarmTierShare);
  while (options_.is_tier_starting() && clock_.Now() < end) {
    MutexLock lock(inbox_->mutex);
    if (inbox_->is_stopping || inbox_->is_cancelled) return;
    inbox_->changed.wait_for(inbox_->mutex, kTierPoll);
  }
}

// Submits prompts until `running_max` prompts run. Submits no prompt while the server refuses all
// requests, for example because it drains.
void Prewarmer::StartPrompts() {
  const bool can_retry = clock_.Now() >= retry_at_;
  while (std::ssize(running_) < options_.running_max && starter_.CheckOpen().ok()) {
    if (!refused_.empty()) {
      if (!can_retry) return;
      const size_t index = refused_.front();
      refused_.erase(refused_.begin());
      StartPrompt(index);
    } else if (next_ < prompts_.size()) {
      StartPrompt(next_++);
    } else {
      return;
    }
  }
  if (running_.empty()) refused_.clear();
}

void Prewarmer::StartPrompt(size_t index) {
  const PrewarmPrompt& prompt = prompts_[index];
  RequestDraft draft;
  std::visit([&draft](const auto& value) { draft.prompt = value; }, prompt.prompt);
  draft.output.max_tokens = 1;
  draft.cache.salt = prompt.salt;
  draft.priority = options_.priority;
  const auto sink = std::make_shared<Sink>(inbox_, index);
  const Time now = clock_.Now();
  // The request has no deadline. The scheduler would refuse a request that probably misses its
  // deadline, although the part of the prompt that is computed by then is useful.
  auto session = std::make_shared<Session>(sink, clock_, now, kNoDeadline);
  sink->SetSession(session);
  running_.emplace(index, session);
  RequestArrival arrival;
  arrival.connection = kConnection;
  arrival.tenant = prompt.tenant;
  arrival.num_bytes = NumBytes(prompt.prompt);
  starter_.Start(
      std::move(session), std::move(arrival), [] { return PromptEstimate{}; },
      [draft = std::move(draft)]() mutable -> absl::StatusOr<RequestDraft> {
        return std::move(draft);
      });
}

bool Prewarmer::AwaitEnds() {
  std::vector<Ended> ended;
  bool is_cancelled = false;
  {
    MutexLock lock(inbox_->mutex);
    const Time until = refused_.empty() ? deadline_ : std::min(deadline_, retry_at_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox_->mutex) {
      return !inbox_->ended.empty() || inbox_->is_cancelled || inbox_->is_stopping;
    };
    while (!has_news() && clock_.Now() < until) inbox_->changed.wait_until(inbox_->mutex, until);
    if (inbox_->is_stopping) return false;
    is_cancelled = inbox_->is_cancelled;
    ended.swap(inbox_->ended);
  }
  for (const Ended& end : ended) Count(end);
  return !is_cancelled && clock_.Now() < deadline_;
}

void Prewarmer::Count(const Ended& ended) {
  running_.erase(ended.index);
  if (!ended.status.ok()) {
    const Reason reason = ErrorOf(ended.status).reason;
    if (reason == Reason::kDraining) return;  // the prompt counts as late
    if (IsQueueFull(reason)) {
      refused_.push_back(ended.index);
      retry_at_ = clock_.Now() + kRetryPause;
      return;
    }
    ++figures_.num_failed;
    spdlog::warn("--prewarm: the prompt in line {} was not computed: {}",
                 prompts_[ended.index].line, MessageOf(ended.status));
    return;
  }
  ++figures_.num_done;
  if (!ended.usage) return;
  figures_.num_tokens += ended.usage->num_prompt_tokens;
  figures_.num_loaded_tokens += ended.usage->num_loaded_tokens;
  figures_.num_device_tokens += ended.usage->num_cached_tokens - ended.usage->num_loaded_tokens;
}

}  // namespace incipit
