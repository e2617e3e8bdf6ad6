// Computes or loads the prompts of --prewarm before the server is ready, so that the prefix cache
// contains them when the first client sends a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "server/prewarm/prewarm_file.h"
#include "server/session/session_starter.h"

namespace incipit {

// Maximum number of prompts that the Prewarmer has submitted and that have not ended.
inline constexpr int32_t kPrewarmRunningMax = 8;
// The Prewarmer waits at most this share of its time limit for the start of the disk cache.
inline constexpr double kPrewarmTierShare = 0.5;

// Figures about the prompts of --prewarm.
struct PrewarmFigures {
  int32_t num_done = 0;    // prompts that were computed or loaded
  int32_t num_failed = 0;  // prompts that the server refused
  int32_t num_late = 0;    // prompts that were cancelled or not started
  // Tokens of the prompts in `num_done`: all tokens, the tokens that the prefix cache on the device
  // contained, and the tokens that were loaded from the disk cache.
  int64_t num_tokens = 0, num_device_tokens = 0, num_loaded_tokens = 0;
  Duration time{};

  int64_t num_computed_tokens() const { return num_tokens - num_device_tokens - num_loaded_tokens; }
};

struct PrewarmOptions {
  Duration time_max{};  // after this time, the prompts that have not ended are cancelled
  int32_t running_max = kPrewarmRunningMax;
  int32_t priority = 0;  // priority of the requests
  // Returns true while the disk cache starts. The Prewarmer waits for the end of the start, so that
  // prompts are loaded instead of computed. Empty: no disk cache.
  std::function<bool()> is_tier_starting = {};
  // Called once, after all prompts have ended, `time_max` has passed, or Cancel was called. Not
  // called after Stop.
  std::function<void(const PrewarmFigures&)> on_done = {};
};

// Submits each prompt as a request for one output token, in the order of the prompts, and discards
// the output. Several requests run at the same time. Logs each prompt that the server refuses, and
// the figures at the end. The callbacks of PrewarmOptions run on the thread of the Prewarmer.
class Prewarmer {
 public:
  // REQUIRES: `starter` and `clock` outlive the Prewarmer.
  Prewarmer(PrewarmOptions options, std::vector<PrewarmPrompt> prompts, SessionStarter& starter,
            const Clock& clock);
  ~Prewarmer();  // calls Stop

  // Starts the thread.
  void Start();
  // Cancels the prompts that have not ended, and returns immediately. Thread-safe.
  void Cancel();
  // Cancels the prompts that have not ended, and ends the thread. A second call does nothing.
  void Stop();

 private:
  class Sink;
  struct Ended;
  struct Inbox;

  void Run();
  void AwaitTier();
  void StartPrompts();
  void StartPrompt(size_t index);
  // Waits until a prompt has ended, prompts can be started, or the time `deadline_` is reached.
  // Returns false at `deadline_`, after Cancel and after Stop.
  bool AwaitEnds();
  void Count(const Ended& ended);
  bool is_stopping() const;

  const PrewarmOptions options_;
  std::vector<PrewarmPrompt> prompts_;
  SessionStarter& starter_;
  const Clock& clock_;
  // The ends of prompts. The sessions share the ownership, because a session may exist longer than
  // the Prewarmer.
  const std::shared_ptr<Inbox> inbox_;

  // Only the thread uses the following members.
  Time deadline_{};
  size_t next_ = 0;              // index of the next prompt that was not submitted
  std::vector<size_t> refused_;  // prompts that were refused because a queue was full
  Time retry_at_{};              // time at which the prompts in `refused_` are submitted again
  std::map<size_t, std::shared_ptr<Session>> running_;  // by index of the prompt
  PrewarmFigures figures_;

  std::thread thread_;  // declared last, because the thread uses all other members
};

}  // namespace incipit
