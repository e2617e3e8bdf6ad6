// Threads that parse messages, render chat templates and tokenize text, so that a long prompt does
// not block a network thread (gRPC or HTTP).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
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

// The load of one task or of several tasks: number of tasks, bytes and prompt tokens.
struct TextLoad {
  int64_t num_bytes = 0;   // size of the serialized messages in bytes
  int64_t num_tokens = 0;  // lower bound for the number of prompt tokens; 0: unknown
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

// Threads that run queued tasks. The connections with queued tasks share the threads by the cost of
// their tasks: the pool uses fair queuing (Demers, Keshav and Shenker, 1989). The cost of a task is
// its bytes plus kCostPerTask. A small task of a new connection usually runs before the large tasks
// of other connections. If all connections always have queued tasks, each gets at most about the
// cost of a task before this task runs. The pool forgets a connection without queued tasks. So
// connections that queue one small task after the other can get more than their share, but every
// task runs at some time.
//
// If the queue is full, a new task displaces tasks of the connection that uses most of the queue.
// If the connection of the new task itself uses most of the queue, the new task is refused.
class TextPool {
 public:
  // A task in the queue. The TextPool calls each queued task exactly once. The argument is nullopt
  // if the task must do its work. If a newer task has displaced the task, the argument is the limit
  // that the queue reached, and the task must not do its work.
  using Task = absl::AnyInvocable<void(std::optional<TextQueueLimit>)>;

  // Cost of a task without its bytes, in bytes.
  static constexpr int64_t kCostPerTask = 4096;

  explicit TextPool(const TextPoolOptions& options);
  ~TextPool();  // calls Stop

  // Adds `task` of the connection `connection` to the queue and returns nullopt. If the queue has
  // no room, returns the reached limit of the queue. `tokens_behind` is the number of prompt tokens
  // in the queue of the engine. Thread-safe; does not block.
  [[nodiscard]] std::optional<TextQueueLimit> Run(std::string_view connection, const TextLoad& load,
                                                  int64_t tokens_behind, Task&& task);
  // Waits until all queued tasks have run, then ends the threads. A second call does nothing. All
  // calls of Stop must be on the same thread.
  void Stop();

 private:
  struct Item {
    Task task;
    TextLoad load;
  };
  // The queued tasks of one connection. `items` is never empty.
  struct Line {
    std::string connection;
    std::deque<Item> items;
    TextLoad load{.num_tasks = 0};
  };
  // The key is the finish tag of the first task of the line. The finish tag is the virtual time at
  // which the task would end if all lines were served at the same time. Lines with equal keys are
  // in the order of their insertion.
  using Lines = std::multimap<int64_t, Line>;

  void Work();
  // Returns the limit that the queue would exceed with an additional task, or nullopt. `queued` is
  // the load of the queue without the task, and `load` is the load of the task. `tokens_behind` is
  // the number of prompt tokens in the queue of the engine.
  std::optional<TextQueueLimit> LimitMet(const TextLoad& queued, const TextLoad& load,
                                         int64_t tokens_behind) const;
  // Makes room in the queue for a new task of `connection`: moves tasks of the connections with the
  // largest load from the queue to `displaced`. If `connection` with its new task would have the
  // largest load, returns false and moves no task.
  bool MakeRoom(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
                std::vector<Task>& displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns how much of the queue's limits `load` uses, in thousandths: the largest of three
  // ratios. The ratios are the number of tasks, the bytes and the prompt tokens of `load`, each
  // divided by its limit.
  int64_t PartOf(const TextLoad& load) const;
  // Removes the task with the smallest finish tag from the queue and returns the task. Advances the
  // virtual time. REQUIRES: the queue is not empty.
  Item TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the last task of the connection `line` from the queue and returns the task. Changes no
  // finish tag of another task.
  Item TakeLast(Lines::iterator line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Subtracts the load of `taken`, which was a task of `line`, from the load of the queue. If
  // `line` has no further task, removes `line`. Returns true if `line` remains.
  bool KeepLine(Lines::iterator line, const Item& taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TextPoolOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  // The connections with queued tasks, in the order in which their first tasks run.
  Lines lines_ ABSL_GUARDED_BY(mutex_);
  // The virtual time, in bytes. Each taken task adds its cost, divided by the number of lines at
  // that time. The finish tag of the first task of a new line is the virtual time plus the cost of
  // the task. The virtual time advances with each task, so new lines cannot delay an old line for
  // ever. The virtual time and the finish tags do not overflow: if the threads process 10 GB/s, the
  // values reach 2^63 after 29 years.
  int64_t virtual_time_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Lines::iterator> by_connection_ ABSL_GUARDED_BY(mutex_);
  TextLoad load_ ABSL_GUARDED_BY(mutex_) = {
      .num_tasks = 0};  // load (tasks, bytes and prompt tokens) of all queued tasks together
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace incipit
