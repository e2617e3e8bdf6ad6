#include "server/session/output.h"

#include <iterator>
#include <utility>

namespace incipit {
namespace {

constexpr size_t kTokenBytes = 4, kScoreBytes = 16, kDeltaBytes = 16, kUsageBytes = 128;

template <typename T>
void MoveTo(std::vector<T>&& from, std::vector<T>& to) {
  if (to.empty()) {
    to = std::move(from);
    return;
  }
  to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
}

}  // namespace

OutputDelta& OutputPart::DeltaOf(int32_t choice) {
  for (OutputDelta& delta : deltas) {
    if (delta.choice == choice) return delta;
  }
  OutputDelta& delta = deltas.emplace_back();
  delta.choice = choice;
  return delta;
}

void OutputPart::Append(OutputPart part) {
  for (OutputDelta& delta : part.deltas) {
    OutputDelta& to = DeltaOf(delta.choice);
    to.text += delta.text;
    MoveTo(std::move(delta.tokens), to.tokens);
    MoveTo(std::move(delta.logprobs), to.logprobs);
    if (delta.finish) to.finish = delta.finish;
    if (delta.stop_string) to.stop_string = std::move(delta.stop_string);
    if (delta.stop_token) to.stop_token = delta.stop_token;
  }
  MoveTo(std::move(part.prompt_logprobs), prompt_logprobs);
  if (part.usage) usage = part.usage;
}

size_t EstimatedBytes(const ScoredPosition& position) {
  size_t bytes = kScoreBytes + position.token.bytes.size();
  for (const ScoredToken& token : position.top) bytes += kScoreBytes + token.bytes.size();
  return bytes;
}

size_t EstimatedBytes(const OutputPart& part) {
  size_t bytes = part.usage ? kUsageBytes : 0;
  for (const OutputDelta& delta : part.deltas) {
    bytes += kDeltaBytes + delta.text.size() + kTokenBytes * delta.tokens.size();
    for (const ScoredPosition& position : delta.logprobs) bytes += EstimatedBytes(position);
  }
  for (const ScoredPosition& position : part.prompt_logprobs) bytes += EstimatedBytes(position);
  return bytes;
}

}  // namespace incipit
