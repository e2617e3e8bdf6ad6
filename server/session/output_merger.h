// Merges the output that a client has not taken yet.
#pragma once

#include <cstddef>
#include <deque>

#include "server/session/output.h"

namespace incipit {

// The queue of parts that wait for a slow client. New output is merged into the last part while
// that part is below a limit of bytes. A slow client gets fewer, larger parts, and the queue costs
// no more memory than the output. Not thread-safe.
class OutputMerger {
 public:
  bool empty() const { return parts_.empty(); }
  // Merges `part` into the last part, or appends it.
  void Add(OutputPart part);
  // Removes and returns the first part. REQUIRES: not empty.
  OutputPart Take();
  void Clear();
  // Estimated bytes of all parts.
  size_t num_bytes() const { return num_bytes_; }

 private:
  struct Queued {
    OutputPart part;
    size_t num_bytes = 0;  // estimated
  };
  std::deque<Queued> parts_;
  size_t num_bytes_ = 0;  // of all of them
};

}  // namespace incipit
