// Reads and verifies records. Each reader thread of the disk tier has one DiskReader.
#pragma once

#include <memory>
#include <vector>

#include "tier/disk_io.h"

namespace incipit {

class DiskReader {
 public:
  explicit DiskReader(DiskIo& io);
  // Executes loads until the queues are stopped.
  void Run();

 private:
  void Begin(uint32_t slot);
  void End(FileRead& read);
  void Complete(uint32_t slot, absl::Status status, RejectReason reason);

  DiskIo& io_;
  const std::unique_ptr<ReadQueue> queue_;
  std::vector<FileRead> reads_;  // one for each staging slot
  std::vector<uint32_t> slots_;  // loads to begin
  size_t num_pending_ = 0;
};

}  // namespace incipit
