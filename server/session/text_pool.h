// Threads that parse messages, render chat templates and tokenise text, so that a long prompt does
// not block a gRPC thread.
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

// A limit on the queue of a TextPool: number of tasks, bytes of messages, or number of prompt
// tokens.
enum class TextQueueLimit : uint8_t { kTasks, kBytes, kTokens };

struct TextPoolOptions {
  int32_t num_threads = 2;
  int32_t tasks_max = 256;  // maximum number of queued tasks
  // Maximum size in bytes of the messages of all queued tasks together. An empty queue also accepts
  // one task with a larger message.
  int64_t bytes_max = 0;
  // Maximum number of prompt tokens in the queue of the TextPool and in the queue of the engine
  // together.
  int64_t tokens_max = std::numeric_limits<int64_t>::max();
};

// Number of tasks in a queue, and the bytes and prompt tokens of these tasks.
struct TextLoad {
  int64_t num_bytes = 0;   // size of the serialized messages in bytes
  int64_t num_tokens = 0;  // minimum number of prompt tokens; 0: unknown
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

// Threads that run queued tasks, one task of each connection in turn. If the queue is full, a new
// task replaces tasks of the connection that uses most of the queue. If the connection of the new
// task uses most of the queue, the new task is refused.
class TextPool {
 public:
  // A task, which is called once: with nullopt to run on a thread of the TextPool, or with the
  // exceeded limit if a newer task replaces the task in a full queue.
  using Task = absl::AnyInvocable<void(std::optional<TextQueueLimit>)>;

  explicit TextPool(const TextPoolOptions& options);
  ~TextPool();  // calls Stop

  // Adds `task` of the connection `connection` to the queue and returns nullopt, or returns the
  // reached limit of the queue. `tokens_behind` is the number of prompt tokens that wait in the
  // engine. Thread-safe; does not wait.
  [[nodiscard]] std::optional<TextQueueLimit> Run(std::string_view connection, const TextLoad& load,
                                                  int64_t tokens_behind, Task&& task);
  // Waits until the queued tasks have run, then ends the threads. A second call does nothing. All
  // calls must be on the same thread.
  void Stop();

 private:
  struct Item {
    Task task;
    TextLoad load;
  };
  // The queued tasks of one connection. `items` has at least one task.
  struct Line {
    std::string connection;
    std::deque<Item> items;
    TextLoad load{.num_tasks = 0};
  };
  using Lines = std::list<Line>;

  void Work();
  // Returns the limit that a queue with the load `queued` would exceed with an additional task of
  // the load `load`, or nullopt. `tokens_behind` is the number of prompt tokens in the queue of the
  // engine.
  std::optional<TextQueueLimit> LimitMet(const TextLoad& queued, const TextLoad& load,
                                         int64_t tokens_behind) const;
  // Makes room in the queue for a new task: moves tasks of the connections with the most load from
  // the queue to `displaced`. Returns false, without a change, if `connection` would have the most
  // load with its new task.
  bool MakeRoom(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
                std::vector<Task>& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the largest of three ratios, in thousandths: the tasks, the bytes and the prompt tokens
  // of `load`, each divided by its limit for the queue.
  int64_t PartOf(const TextLoad& load) const;
  // Removes a task of the connection `line` from the queue, and returns the task: the first task if
  // `first` is true, otherwise the last task.
  Item Take(Lines::iterator line, bool first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TextPoolOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  // Queued tasks of each connection. A thread runs the next task of the first connection.
  Lines lines_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Lines::iterator> by_connection_ ABSL_GUARDED_BY(mutex_);
  TextLoad load_ ABSL_GUARDED_BY(mutex_) = {.num_tasks = 0};  // load of all queued tasks together
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace incipit
