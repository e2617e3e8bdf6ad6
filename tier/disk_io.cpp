#include "tier/disk_io.h"

#include <thread>
#include <utility>

#include "base/scheduling.h"
#include "tier/disk_reader.h"
#include "tier/disk_writer.h"

namespace incipit {
namespace {

constexpr int kUringReaders = 2;     // each reader has several reads in flight
constexpr int kBlockingReaders = 4;  // each reader has one read in flight

}  // namespace

DiskIo::DiskIo(std::unique_ptr<FileSystem> file_system, DiskIoOptions options)
    : file_system_(std::move(file_system)),
      options_(std::move(options)),
      segments_(*file_system_, options_.segments),
      staging_(options_.num_slots + 1, options_.segments.record.record_bytes),
      loads_(options_.num_slots),
      queues_(options_.num_slots) {
  for (LoadJob& load : loads_) load.tokens.resize(options_.segments.record.num_tokens);
}

void DiskIo::Start(const std::shared_ptr<DiskIo>& io) {
  const int num_readers = io->file_system_->read_depth() > 1 ? kUringReaders : kBlockingReaders;
  {
    MutexLock lock(io->mutex_);
    io->num_threads_ = num_readers + 1;
  }
  for (int i = 0; i <= num_readers; ++i) {
    std::thread([io, i] { io->Run(i == 0); }).detach();
  }
}

void DiskIo::Run(bool is_writer) {
  NameThisThread(is_writer ? "tier-writer" : "tier-reader");
  if (is_writer) {
    DiskWriter(*this).Run();
  } else {
    DiskReader(*this).Run();
  }
  MutexLock lock(mutex_);
  --num_threads_;
  thread_ended_.notify_all();
}

bool DiskIo::Stop(Duration limit) {
  queues_.Stop();
  const Time deadline = SteadyClock().Now() + limit;
  MutexLock lock(mutex_);
  while (num_threads_ > 0) {
    if (thread_ended_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  return num_threads_ == 0;
}

}  // namespace incipit
