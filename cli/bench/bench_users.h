// The users of a load test. Each user sends one request at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace incipit {

// Chooses the user that sends the next request: the user that was ready first. Not thread-safe.
class BenchUsers {
 public:
  // Creates `num_users` users, which are ready from the start. If several users became ready at the
  // same time, the user with the smallest number is first.
  explicit BenchUsers(int32_t num_users) : num_users_(num_users) {
    for (int32_t user = 0; user < num_users; ++user) ready_.emplace(Time::min(), user);
  }

  // Returns the time at which the next user is ready to send a request. Returns kNoDeadline if
  // every user waits for the end of a request.
  Time ready_at() const { return ready_.empty() ? kNoDeadline : ready_.top().first; }

  // Returns the user that sends the next request. The caller must call Release() when the request
  // has ended. If every user waits for the end of a request, adds a user and returns the new user.
  int32_t Take() {
    if (ready_.empty()) return num_users_++;
    const int32_t user = ready_.top().second;
    ready_.pop();
    return user;
  }

  // Reports that the request of `user` has ended, and that `user` is ready from `ready_at`.
  void Release(int32_t user, Time ready_at) { ready_.emplace(ready_at, user); }

 private:
  using Entry = std::pair<Time, int32_t>;

  int32_t num_users_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
};

}  // namespace incipit
