// A queue of output for a slow client, which merges the output into fewer messages.
#pragma once

#include <cstddef>
#include <deque>

#include "server/session/output.h"

namespace incipit {

// A queue of output for a client that reads slowly. Each part in the queue becomes one message. New
// output is merged into the last part of the queue, unless this part would become too large. Not
// thread-safe.
class OutputMerger {
 public:
  bool empty() const { return parts_.empty(); }
  // Merges `part` into the last part of the queue. If the merged part would become too large,
  // appends `part` as a new part.
  void Add(OutputPart part);
  // Removes the first part of the queue and returns the part. REQUIRES: `empty()` is false.
  OutputPart Take();
  void Clear();
  // Returns the estimated size in bytes of all output in the queue.
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
