#include "server/session/text_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace incipit {

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

std::optional<TextQueueLimit> TextPool::Run(std::string_view connection, int64_t num_bytes,
                                            Task&& task) {
  std::vector<Task> displaced;
  std::optional<TextQueueLimit> limit;
  {
    MutexLock lock(mutex_);
    limit = LimitMet(num_tasks_, num_bytes_ + num_bytes);
    if (limit && !MakeRoom(connection, num_bytes, displaced)) return limit;
    const auto [found, is_new] = by_connection_.try_emplace(std::string(connection));
    if (is_new) {
      lines_.push_back({.connection = found->first, .items = {}});
      found->second = std::prev(lines_.end());
    }
    Line& line = *found->second;
    line.items.push_back({std::move(task), num_bytes});
    line.num_bytes += num_bytes;
    ++num_tasks_;
    num_bytes_ += num_bytes;
  }
  changed_.notify_one();
  for (Task& other : displaced) other(limit);
  return std::nullopt;
}

std::optional<TextQueueLimit> TextPool::LimitMet(int32_t num_tasks, int64_t num_bytes) const {
  if (num_tasks == 0) return std::nullopt;
  if (num_tasks >= options_.tasks_max) return TextQueueLimit::kTasks;
  if (num_bytes > options_.bytes_max) return TextQueueLimit::kBytes;
  return std::nullopt;
}

int64_t TextPool::PartOf(size_t num_tasks, int64_t num_bytes) const {
  return std::max(static_cast<int64_t>(num_tasks) * 1000 / options_.tasks_max,
                  num_bytes * 1000 / std::max<int64_t>(options_.bytes_max, 1));
}

bool TextPool::MakeRoom(std::string_view connection, int64_t num_bytes,
                        std::vector<Task>& displaced) {
  int32_t num_tasks = num_tasks_;
  int64_t all_bytes = num_bytes_ + num_bytes;
  const auto own = by_connection_.find(absl::string_view(connection.data(), connection.size()));
  const int64_t own_part = own == by_connection_.end() ? PartOf(1, num_bytes)
                                                       : PartOf(own->second->items.size() + 1,
                                                                own->second->num_bytes + num_bytes);
  // A line as it would be without its last tasks.
  struct Rest {
    Lines::iterator line;
    size_t num_tasks = 0;
    int64_t num_bytes = 0;
  };
  std::vector<Rest> rests;
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    rests.push_back({line, line->items.size(), line->num_bytes});
  }
  const auto part_of = [this](const Rest& rest) { return PartOf(rest.num_tasks, rest.num_bytes); };
  std::vector<Lines::iterator> chosen;
  while (LimitMet(num_tasks, all_bytes)) {
    const auto largest =
        std::max_element(rests.begin(), rests.end(),
                         [&](const Rest& a, const Rest& b) { return part_of(a) < part_of(b); });
    if (part_of(*largest) <= own_part) return false;
    const int64_t freed = largest->line->items[--largest->num_tasks].num_bytes;
    largest->num_bytes -= freed;
    all_bytes -= freed;
    --num_tasks;
    chosen.push_back(largest->line);
  }
  for (const Lines::iterator line : chosen) {
    displaced.push_back(Take(line, /*first=*/false).task);
  }
  return true;
}

TextPool::Item TextPool::Take(Lines::iterator line, bool first) {
  Item item = std::move(first ? line->items.front() : line->items.back());
  if (first) {
    line->items.pop_front();
  } else {
    line->items.pop_back();
  }
  line->num_bytes -= item.num_bytes;
  --num_tasks_;
  num_bytes_ -= item.num_bytes;
  if (line->items.empty()) {
    by_connection_.erase(line->connection);
    lines_.erase(line);
  } else if (first) {
    lines_.splice(lines_.end(), lines_, line);  // behind the other connections
  }
  return item;
}

void TextPool::Work() {
  while (true) {
    Item item;
    {
      MutexLock lock(mutex_);
      while (lines_.empty() && !stopping_) changed_.wait(mutex_);
      if (lines_.empty()) return;
      item = Take(lines_.begin(), /*first=*/true);
    }
    item.task(std::nullopt);
  }
}

}  // namespace incipit
