// A pool of threads for text work: parsing, chat templates and tokenisation. A long prompt
// therefore delays neither the gRPC threads nor health checks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace incipit {

// What bounds the queue.
enum class TextQueueLimit : uint8_t { kTasks, kBytes, kTokens };

struct TextPoolOptions {
  int32_t num_threads = 2;
  int32_t tasks_max = 256;  // maximum number of waiting tasks
  int64_t bytes_max = 0;    // of the messages of the tasks that wait; one task always has room
  // Prompt tokens of the tasks that wait and of the requests that wait behind this queue.
  int64_t tokens_max = std::numeric_limits<int64_t>::max();
};

// What tasks take of the queue.
struct TextLoad {
  int64_t num_bytes = 0;   // of memory
  int64_t num_tokens = 0;  // of prompts, at least; 0: nothing is known
  int64_t num_tasks = 1;

  TextLoad& operator+=(const TextLoad& other) {
    num_bytes += other.num_bytes;
    num_tokens += other.num_tokens;
    num_tasks += other.num_tasks;
    return *this;
  }
  TextLoad& operator-=(const TextLoad& other) {
    num_bytes -= other.num_bytes;
    num_tokens -= other.num_tokens;
    num_tasks -= other.num_tasks;
    return *this;
  }
};

// The queue is bounded in tasks, bytes and prompt tokens, and fair between connections: threads
// take one task of each connection in turn, and if the queue is full, a connection with a smaller
// part of it takes the place of the last task of the connection with the largest part.
class TextPool {
 public:
  // Called once: on a thread of the pool with nothing, or, if the task is displaced, on the thread
  // of another Run with the limit that this Run met.
  using Task = absl::AnyInvocable<void(std::optional<TextQueueLimit>)>;

  explicit TextPool(const TextPoolOptions& options);
  ~TextPool();  // calls Stop

  // Queues `task`, which takes `load`; `tokens_behind` wait behind this queue. Thread-safe; does
  // not wait. If there is no room, returns the limit that is met and leaves `task` as it is.
  [[nodiscard]] std::optional<TextQueueLimit> Run(std::string_view connection, const TextLoad& load,
                                                  int64_t tokens_behind, Task&& task);
  // Runs the queued tasks, then ends the threads. Idempotent. Must always be called by the same
  // thread.
  void Stop();

 private:
  struct Item {
    Task task;
    TextLoad load;
  };
  // The waiting tasks of one connection. `items` is never empty.
  struct Line {
    std::string connection;
    std::deque<Item> items;
    TextLoad load{.num_tasks = 0};
  };
  using Lines = std::list<Line>;

  void Work();
  // The limit that a task with `load` would meet beside tasks with `queued`.
  std::optional<TextQueueLimit> LimitMet(const TextLoad& queued, const TextLoad& load,
                                         int64_t tokens_behind) const;
  // Makes room for a task of `connection`: takes the last task of the connection with the largest
  // part, again and again, while that part is larger than the one that `connection` would have.
  // Takes nothing and returns false if that does not make enough room.
  bool MakeRoom(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
                std::vector<Task>& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part of the queue that `load` takes, in thousandths of a full queue.
  int64_t PartOf(const TextLoad& load) const;
  // Removes and returns the first task of `line`, or the last task if `first` is false.
  Item Take(Lines::iterator line, bool first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TextPoolOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  Lines lines_ ABSL_GUARDED_BY(mutex_);  // waiting tasks, in the order of service
  absl::flat_hash_map<std::string, Lines::iterator> by_connection_ ABSL_GUARDED_BY(mutex_);
  TextLoad load_ ABSL_GUARDED_BY(mutex_) = {.num_tasks = 0};  // of all lines
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace incipit
