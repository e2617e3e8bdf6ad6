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

// A limit of the queue of a TextPool: on the number of tasks, on the bytes of the messages or on
// the number of prompt tokens.
enum class TextQueueLimit : uint8_t { kTasks, kBytes, kTokens };

struct TextPoolOptions {
  int32_t num_threads = 2;
  int32_t tasks_max = 256;  // maximum number of waiting tasks
  // Maximum size of the messages of all waiting tasks together, in bytes. If no task waits, a
  // larger task is also accepted.
  int64_t bytes_max = 0;
  // Maximum number of prompt tokens of the waiting tasks and of the requests that wait for the
  // engine, together.
  int64_t tokens_max = std::numeric_limits<int64_t>::max();
};

// The load of one or more tasks on the queue of a TextPool.
struct TextLoad {
  int64_t num_bytes = 0;   // size of the messages in bytes
  int64_t num_tokens = 0;  // lower bound of the number of prompt tokens; 0: unknown
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

// A pool of threads with one queue of tasks. The queue has limits on tasks, bytes and prompt
// tokens, and treats connections fairly. The threads run one task of each connection in turn. If
// the queue is full, a new task may displace the last task of the connection with the largest share
// of the queue. A task is displaced only if the connection of the new task, including the new task,
// has a smaller share.
class TextPool {
 public:
  // A task, which the pool calls once. A thread of the pool calls the task with nullopt. If the
  // task of another call of Run displaces this task, that call of Run calls this task with the
  // limit that the queue had reached.
  using Task = absl::AnyInvocable<void(std::optional<TextQueueLimit>)>;

  explicit TextPool(const TextPoolOptions& options);
  ~TextPool();  // calls Stop

  // Queues `task` of `connection`, which has the load `load`. `tokens_behind` is the number of
  // prompt tokens that wait for the engine. Returns nullopt if `task` was queued. If the queue has
  // no room, returns the limit that is reached and leaves `task` unchanged. Thread-safe; does not
  // wait.
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
  // Returns the limit that a task with `load` would exceed if tasks with the total load `queued`
  // wait. Returns nullopt if the task has room. `tokens_behind` is the number of prompt tokens that
  // wait for the engine.
  std::optional<TextQueueLimit> LimitMet(const TextLoad& queued, const TextLoad& load,
                                         int64_t tokens_behind) const;
  // Makes room for a new task of `connection` with `load`. Moves tasks to `displaced` until the new
  // task has room, each time the last task of the connection with the largest share of the queue.
  // The largest share must exceed the share that `connection` would have with the new task.
  // Otherwise, MakeRoom returns false and displaces no task.
  bool MakeRoom(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
                std::vector<Task>& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the share of the queue that `load` occupies, in thousandths of a full queue. The share
  // is the maximum of the shares of tasks, bytes and prompt tokens.
  int64_t PartOf(const TextLoad& load) const;
  // Removes and returns the first task of `line`, or the last task if `first` is false.
  Item Take(Lines::iterator line, bool first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TextPoolOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  Lines lines_ ABSL_GUARDED_BY(mutex_);  // waiting tasks by connection, in the order of service
  absl::flat_hash_map<std::string, Lines::iterator> by_connection_ ABSL_GUARDED_BY(mutex_);
  TextLoad load_ ABSL_GUARDED_BY(mutex_) = {.num_tasks = 0};  // total load of all waiting tasks
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace incipit
