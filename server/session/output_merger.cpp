#include "server/session/output_merger.h"

#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"

namespace incipit {
namespace {

// Maximum estimated size of an output part that was merged from several parts, in bytes. A gRPC
// client accepts much larger messages (4 MiB by default).
constexpr size_t kPartBytes = 256 << 10;

template <typename T>
void MoveTo(std::vector<T>&& from, std::vector<T>& to) {
  if (to.empty()) {
    to = std::move(from);
    return;
  }
  to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
}

// Appends the output in `part` to `to`. REQUIRES: the output in `part` directly follows the output
// in `to`.
void Append(OutputPart part, OutputPart& to) {
  for (OutputDelta& delta : part.deltas) {
    OutputDelta& merged = to.DeltaOf(delta.choice);
    merged.text += delta.text;
    merged.reasoning += delta.reasoning;
    MoveTo(std::move(delta.tool_calls), merged.tool_calls);
    MoveTo(std::move(delta.tokens), merged.tokens);
    MoveTo(std::move(delta.logprobs), merged.logprobs);
    if (delta.finish) merged.finish = delta.finish;
    if (delta.stop_string) merged.stop_string = std::move(delta.stop_string);
    if (delta.stop_token) merged.stop_token = delta.stop_token;
  }
  MoveTo(std::move(part.prompt_logprobs), to.prompt_logprobs);
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
