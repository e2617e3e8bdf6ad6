// A list of the running requests of a gateway. The gateway can abort a request by its name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/session/session.h"

namespace incipit {

// Finds sessions (objects for running requests) by the names that a gateway gave the requests.
// Several requests may have the same name. Thread-safe.
class AbortList {
  using Sessions = std::multimap<std::string, std::weak_ptr<Session>, std::less<>>;

 public:
  // An entry of the list. Abort can find the session until the Entry is destroyed.
  class Entry {
   public:
    Entry(AbortList& list, std::string name, std::weak_ptr<Session> session);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    AbortList& list_;
    Sessions::iterator where_;
  };

  // Adds `session` under the name `name`, and returns the new entry. REQUIRES: the list outlives
  // the entry.
  [[nodiscard]] std::unique_ptr<Entry> Add(std::string name, std::weak_ptr<Session> session) {
    return std::make_unique<Entry>(*this, std::move(name), std::move(session));
  }
  // Cancels all requests with the name `name`. Does nothing if there is no such request.
  void Abort(std::string_view name);

 private:
  Mutex mutex_;
  Sessions sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
