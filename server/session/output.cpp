#include "server/session/output.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "server/session/random_source.h"

namespace incipit {
namespace {

// Estimated sizes, in bytes, of the parts of a message to the client. kTokenBytes: one token id.
// kScoreBytes: one log probability. kDeltaBytes: one OutputDelta (piece of output) without its
// contents. kUsageBytes: `usage` (token counts and times).
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

void Append(OutputDelta delta, OutputDelta& to) {
  to.text += delta.text;
  to.reasoning += delta.reasoning;
  MoveTo(std::move(delta.tool_calls), to.tool_calls);
  MoveTo(std::move(delta.tokens), to.tokens);
  MoveTo(std::move(delta.logprobs), to.logprobs);
  if (delta.finish) to.finish = delta.finish;
  if (delta.stop_string) to.stop_string = std::move(delta.stop_string);
  if (delta.stop_token) to.stop_token = delta.stop_token;
}

std::string NewToolCallId() {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int kLength = 9;
  static RandomSource random;
  uint64_t bits = random.Next();
  std::string id;
  for (int i = 0; i < kLength; ++i) {
    id += kDigits[bits % kDigits.size()];
    bits /= kDigits.size();
  }
  return id;
}

size_t EstimatedBytes(const ScoredPosition& position) {
  size_t bytes = kScoreBytes + position.token.bytes.size();
  for (const ScoredToken& token : position.top) bytes += kScoreBytes + token.bytes.size();
  return bytes;
}

size_t ContentBytes(const OutputDelta& delta) {
  size_t bytes = delta.text.size() + delta.reasoning.size() + kTokenBytes * delta.tokens.size();
  for (const OutputToolCall& call : delta.tool_calls) {
    bytes += kDeltaBytes + call.name.size() + call.arguments_json.size();
  }
  for (const ScoredPosition& position : delta.logprobs) bytes += EstimatedBytes(position);
  return bytes;
}

size_t EstimatedBytes(const OutputPart& part) {
  size_t bytes = part.usage ? kUsageBytes : 0;
  for (const OutputDelta& delta : part.deltas) bytes += kDeltaBytes + ContentBytes(delta);
  for (const ScoredPosition& position : part.prompt_logprobs) bytes += EstimatedBytes(position);
  return bytes;
}

}  // namespace incipit
