#include "server/session/text_pool.h"

#include <algorithm>
#include <utility>

namespace incipit {
namespace {

int64_t CostOf(const TextLoad& load) {
  return load.num_bytes + load.num_tasks * TextPool::kCostPerTask;
}

}  // namespace

TextPool::TextPool(const TextPoolOptions& options) : options_(options) {
  for (int32_t i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { Work(); });
}

TextPool::~TextPool() { Stop(); }

void TextPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::optional<TextQueueLimit> TextPool::Run(std::string_view connection, const TextLoad& load,
                                            int64_t tokens_behind, Task&& task) {
  std::vector<Task> displaced;
  std::optional<TextQueueLimit> limit;
  {
    MutexLock lock(mutex_);
    limit = LimitMet(load_, load, tokens_behind);
    if (limit && !MakeRoom(connection, load, tokens_behind, displaced)) return limit;
    const auto [found, is_new] = by_connection_.try_emplace(std::string(connection));
    if (is_new) {
      found->second = lines_.emplace(virtual_time_ + CostOf(load),
                                     Line{.connection = found->first, .items = {}});
    }
    Line& line = found->second->second;
    line.items.push_back({std::move(task), load});
    line.load += load;
    load_ += load;
  }
  changed_.notify_one();
  for (Task& other : displaced) other(limit);
  return std::nullopt;
}

std::optional<TextQueueLimit> TextPool::LimitMet(const TextLoad& queued, const TextLoad& load,
                                                 int64_t tokens_behind) const {
  if (queued.num_tasks == 0) return std::nullopt;
  if (queued.num_tasks >= options_.tasks_max) return TextQueueLimit::kTasks;
  if (queued.num_bytes + load.num_bytes > options_.bytes_max) return TextQueueLimit::kBytes;
  const int64_t num_ahead = queued.num_tokens + tokens_behind;
  if (load.num_tokens > 0 && num_ahead > 0 && num_ahead + load.num_tokens > options_.tokens_max) {
    return TextQueueLimit::kTokens;
  }
  return std::nullopt;
}

int64_t TextPool::PartOf(const TextLoad& load) const {
  return std::max({load.num_tasks * 1000 / options_.tasks_max,
                   load.num_bytes * 1000 / std::max<int64_t>(options_.bytes_max, 1),
                   load.num_tokens * 1000 / options_.tokens_max});
}

bool TextPool::MakeRoom(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
                        std::vector<Task>& displaced) {
  const auto own = by_connection_.find(absl::string_view(connection.data(), connection.size()));
  TextLoad own_load = load;
  if (own != by_connection_.end()) own_load += own->second->second.load;
  const int64_t own_part = PartOf(own_load);
  // A connection (`line`), and the total load (number of tasks, bytes and tokens) of its tasks that
  // remain in the queue.
  struct Rest {
    Lines::iterator line;
    TextLoad load;
  };
  std::vector<Rest> rests;
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    rests.push_back({line, line->second.load});
  }
  TextLoad queued = load_;
  std::vector<Lines::iterator> chosen;
  while (LimitMet(queued, load, tokens_behind)) {
    const auto largest = std::max_element(
        rests.begin(), rests.end(),
        [this](const Rest& a, const Rest& b) { return PartOf(a.load) < PartOf(b.load); });
    if (PartOf(largest->load) <= own_part) return false;
    const auto last = static_cast<size_t>(largest->load.num_tasks) - 1;
    const TextLoad freed = largest->line->second.items[last].load;
    largest->load -= freed;
    queued -= freed;
    chosen.push_back(largest->line);
  }
  for (const Lines::iterator line : chosen) {
    displaced.push_back(TakeLast(line).task);
  }
  return true;
}

TextPool::Item TextPool::TakeNext() {
  const Lines::iterator next = lines_.begin();
  std::deque<Item>& items = next->second.items;
  Item item = std::move(items.front());
  items.pop_front();
  // The quotient is rounded up, so that the virtual time always advances.
  const auto num_lines = static_cast<int64_t>(lines_.size());
  virtual_time_ += (CostOf(item.load) + num_lines - 1) / num_lines;
  if (KeepLine(next, item)) {
    auto node = lines_.extract(next);
    node.key() += CostOf(node.mapped().items.front().load);
    const Lines::iterator moved = lines_.insert(std::move(node));
    by_connection_.find(moved->second.connection)->second = moved;
  }
  return item;
}

TextPool::Item TextPool::TakeLast(Lines::iterator line) {
  std::deque<Item>& items = line->second.items;
  Item item = std::move(items.back());
  items.pop_back();
  KeepLine(line, item);
  return item;
}

bool TextPool::KeepLine(Lines::iterator line, const Item& taken) {
  line->second.load -= taken.load;
  load_ -= taken.load;
  if (!line->second.items.empty()) return true;
  by_connection_.erase(line->second.connection);
  lines_.erase(line);
  return false;
}

void TextPool::Work() {
  while (true) {
    Item item;
    {
      MutexLock lock(mutex_);
      while (lines_.empty() && !stopping_) changed_.wait(mutex_);
      if (lines_.empty()) return;
      item = TakeNext();
    }
    item.task(std::nullopt);
  }
}

}  // namespace incipit
