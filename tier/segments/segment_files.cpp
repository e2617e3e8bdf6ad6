#include "tier/segments/segment_files.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace incipit {

absl::StatusOr<std::shared_ptr<File>> SegmentFiles::Get(uint32_t number) {
  {
    MutexLock lock(mutex_);
    const auto found = std::ranges::find(open_, number, &OpenFile::number);
    if (found != open_.end()) return found->file;
  }
  INCIPIT_ASSIGN_OR_RETURN(std::shared_ptr<File> file,
                           files_.Open(SegmentName(fingerprint_, number)));
  Add(number, file);
  return file;
}

void SegmentFiles::Add(uint32_t number, std::shared_ptr<File> file) {
  MutexLock lock(mutex_);
  if (number < oldest_) return;
  const auto found = std::ranges::find(open_, number, &OpenFile::number);
  if (found != open_.end()) {
    found->file.swap(file);
  } else if (open_.size() < kOpenMax) {
    open_.push_back({number, std::move(file)});
  } else {
    open_[next_victim_] = {number, std::move(file)};
    next_victim_ = (next_victim_ + 1) % kOpenMax;
  }
}

void SegmentFiles::Forget(uint32_t number) {
  MutexLock lock(mutex_);
  oldest_ = std::max(oldest_, number + 1);
  std::erase_if(open_, [number](const OpenFile& open) { return open.number == number; });
}

void SegmentFiles::ForgetAll() {
  MutexLock lock(mutex_);
  open_.clear();
}

}  // namespace incipit
