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

bool TextPool::Run(std::string_view connection, int64_t num_bytes, Task&& task) {
  std::vector<Task> displaced;
  bool is_taken = true;
  {
    MutexLock lock(mutex_);
    while (is_taken && !HasRoom(num_bytes)) {
      is_taken = Displace(connection, num_bytes, displaced);
    }
    if (is_taken) {
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
  }
  if (is_taken) changed_.notify_one();
  for (Task& other : displaced) other(Turn::kDisplaced);
  return is_taken;
}

bool TextPool::HasRoom(int64_t num_bytes) const {
  if (num_tasks_ == 0) return true;
  return num_tasks_ < options_.tasks_max && num_bytes_ + num_bytes <= options_.bytes_max;
}

int64_t TextPool::PartOf(size_t num_tasks, int64_t num_bytes) const {
  return std::max(static_cast<int64_t>(num_tasks) * 1000 / options_.tasks_max,
                  num_bytes * 1000 / std::max<int64_t>(options_.bytes_max, 1));
}

bool TextPool::Displace(std::string_view connection, int64_t num_bytes,
                        std::vector<Task>& displaced) {
  const auto part_of = [this](const Line& line) {
    return PartOf(line.items.size(), line.num_bytes);
  };
  const auto own = by_connection_.find(absl::string_view(connection.data(), connection.size()));
  const int64_t own_part = own == by_connection_.end() ? PartOf(1, num_bytes)
                                                       : PartOf(own->second->items.size() + 1,
                                                                own->second->num_bytes + num_bytes);
  const auto largest =
      std::max_element(lines_.begin(), lines_.end(),
                       [&](const Line& a, const Line& b) { return part_of(a) < part_of(b); });
  if (largest == lines_.end() || part_of(*largest) <= own_part) return false;
  displaced.push_back(Take(largest, /*first=*/false).task);
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
    item.task(Turn::kRun);
  }
}

}  // namespace incipit
