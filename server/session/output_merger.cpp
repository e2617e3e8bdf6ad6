#include "server/session/output_merger.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"

namespace incipit {
namespace {

// Maximum estimated size of an output part that was merged from several parts, in bytes. A gRPC
// client accepts much larger messages (4 MiB by default).
constexpr size_t kPartBytes = 256 << 10;

// Appends the output in `part` to `to`. REQUIRES: the output in `part` directly follows the output
// in `to`.
void Append(OutputPart part, OutputPart& to) {
  for (OutputDelta& delta : part.deltas) {
    OutputDelta& merged = to.DeltaOf(delta.choice);
    Append(std::move(delta), merged);
  }
  std::ranges::move(part.prompt_logprobs, std::back_inserter(to.prompt_logprobs));
  if (part.prompt) to.prompt = part.prompt;
  if (part.usage) to.usage = part.usage;
}

}  // namespace

void OutputMerger::Add(OutputPart part) {
  const size_t bytes = EstimatedBytes(part);
  num_bytes_ += bytes;
  if (parts_.empty() || parts_.back().num_bytes + bytes > kPartBytes) {
    parts_.push_back({std::move(part), bytes});
  } else {
    Append(std::move(part), parts_.back().part);
    parts_.back().num_bytes += bytes;
  }
}

OutputPart OutputMerger::Take() {
  INCIPIT_CHECK(!parts_.empty());
  OutputPart part = std::move(parts_.front().part);
  num_bytes_ -= parts_.front().num_bytes;
  parts_.pop_front();
  return part;
}

void OutputMerger::Clear() {
  parts_.clear();
  num_bytes_ = 0;
}

}  // namespace incipit
