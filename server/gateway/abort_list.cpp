#include "server/gateway/abort_list.h"

#include <utility>
#include <vector>

#include "server/session/request/request_error.h"

namespace incipit {

AbortList::Entry::Entry(AbortList& list, std::string name, std::weak_ptr<Session> session)
    : list_(list) {
  MutexLock lock(list_.mutex_);
  where_ = list_.sessions_.emplace(std::move(name), std::move(session));
}

AbortList::Entry::~Entry() {
  MutexLock lock(list_.mutex_);
  list_.sessions_.erase(where_);
}

void AbortList::Abort(std::string_view name) {
  std::vector<std::shared_ptr<Session>> found;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = sessions_.equal_range(name);
    for (auto entry = begin; entry != end; ++entry) {
      if (auto session = entry->second.lock()) found.push_back(std::move(session));
    }
  }
  for (const auto& session : found) {
    session->Abandon(Refuse(Reason::kCancelled, "the gateway has aborted the request"));
    session->OnCancelled();
  }
}

}  // namespace incipit
