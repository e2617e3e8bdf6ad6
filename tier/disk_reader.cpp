#include "tier/disk_reader.h"

#include <utility>

#include "base/status.h"

namespace incipit {

DiskReader::DiskReader(DiskIo& io)
    : io_(io), queue_(io.file_system_->MakeReadQueue()), reads_(io.options_.num_slots) {}

void DiskReader::Run() {
  const auto depth = static_cast<size_t>(io_.file_system_->read_depth());
  while (true) {
    const bool waits = num_pending_ == 0;
    const bool goes_on = io_.queues_.NextLoads(waits, depth - num_pending_, slots_);
    if (!goes_on && num_pending_ == 0) return;
    for (const uint32_t slot : slots_) Begin(slot);
    slots_.clear();
    if (num_pending_ > 0) End(queue_->Wait());
  }
}

void DiskReader::Begin(uint32_t slot) {
  const LoadJob& job = io_.loads_[slot];
  if (job.is_cancelled.load(std::memory_order_relaxed) || io_.queues_.stopped()) {
    return Complete(slot, Cancelled("the load was cancelled"), RejectReason::kOk);
  }
  auto file = io_.segments_.files().Get(job.at.segment);
  if (!file.ok()) return Complete(slot, file.status(), RejectReason::kOk);
  const SegmentLayout layout(io_.options_.segments.segment_bytes,
                             io_.options_.segments.record.record_bytes);
  reads_[slot] = {.file = *std::move(file),
                  .offset = layout.OffsetOf(job.at.index),
                  .out = io_.staging_.slot(slot),
                  .status = {}};
  ++num_pending_;
  queue_->Submit(reads_[slot]);
}

void DiskReader::End(FileRead& read) {
  --num_pending_;
  const auto slot = static_cast<uint32_t>(&read - reads_.data());
  read.file.reset();
  if (!read.status.ok()) {
    const bool is_short = read.status.code() == absl::StatusCode::kOutOfRange;
    return Complete(slot, is_short ? absl::OkStatus() : read.status,
                    is_short ? RejectReason::kSize : RejectReason::kOk);
  }
  const SegmentStoreOptions& segments = io_.options_.segments;
  Complete(slot, absl::OkStatus(),
           VerifyRecord(segments.record, segments.fingerprint, io_.loads_[slot].wanted, read.out,
                        io_.options_.unix_seconds(), io_.options_.is_finite));
}

void DiskReader::Complete(uint32_t slot, absl::Status status, RejectReason reason) {
  const bool wakes = !io_.loads_[slot].is_cancelled.load(std::memory_order_relaxed);
  io_.queues_.Complete({.kind = Completion::Kind::kLoaded,
                        .slot = slot,
                        .status = std::move(status),
                        .reason = reason,
                        .ended = io_.options_.clock->Now()},
                       wakes);
}

}  // namespace incipit
