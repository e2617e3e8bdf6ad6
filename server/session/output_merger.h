// Merges output that waits for a slow client.
#pragma once

#include <cstddef>
#include <deque>

#include "server/session/output.h"

namespace incipit {

// A queue of output parts that wait for a slow client. New output is merged into the last part of
// the queue, unless the merged part would exceed a limit of bytes. A slow client therefore gets
// fewer and larger parts, and the queue needs no more memory than the output. Not thread-safe.
class OutputMerger {
 public:
  bool empty() const { return parts_.empty(); }
  // Merges `part` into the last part of the queue. If the merged part would exceed the limit of
  // bytes, appends `part` to the queue instead.
  void Add(OutputPart part);
  // Removes and returns the first part. REQUIRES: `empty()` is false.
  OutputPart Take();
  void Clear();
  // Returns the estimated size of all parts in the queue, in bytes.
  size_t num_bytes() const { return num_bytes_; }

 private:
  struct Queued {
    OutputPart part;
    size_t num_bytes = 0;  // estimated size of `part` in bytes
  };
  std::deque<Queued> parts_;
  size_t num_bytes_ = 0;  // estimated size of all parts in `parts_`, in bytes
};

}  // namespace incipit
