#include "server/session/output.h"

#include <string_view>

#include "server/session/random_source.h"

namespace incipit {
namespace {

// Estimated sizes in a message, in bytes: one token id, one log probability, one delta (piece of
// output) without its contents, and one `usage`.
constexpr size_t kTokenBytes = 4, kScoreBytes = 16, kDeltaBytes = 16, kUsageBytes = 128;

}  // namespace

OutputDelta& OutputPart::DeltaOf(int32_t choice) {
  for (OutputDelta& delta : deltas) {
    if (delta.choice == choice) return delta;
  }
  OutputDelta& delta = deltas.emplace_back();
  delta.choice = choice;
  return delta;
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

size_t EstimatedBytes(const OutputPart& part) {
  size_t bytes = part.usage ? kUsageBytes : 0;
  for (const OutputDelta& delta : part.deltas) {
    bytes += kDeltaBytes + delta.text.size() + delta.reasoning.size() +
             kTokenBytes * delta.tokens.size();
    for (const OutputToolCall& call : delta.tool_calls) {
      bytes += kDeltaBytes + call.name.size() + call.arguments_json.size();
    }
    for (const ScoredPosition& position : delta.logprobs) bytes += EstimatedBytes(position);
  }
  for (const ScoredPosition& position : part.prompt_logprobs) bytes += EstimatedBytes(position);
  return bytes;
}

}  // namespace incipit
