#include "cli/bench/workload_prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace incipit {
namespace {

// Indexes of random number streams. Conversation i uses the stream kFirstStream + i. The tokens
// that all prompts share use kSystemStream. If the workload has a fixed number of documents,
// document i uses the stream kLastTopicStream - i.
constexpr uint32_t kSystemStream = 0, kFirstStream = 2, kLastTopicStream = 0xfffffffe;

// Returns the position of the first random number for turn `turn` in the random number stream of a
// conversation. Each turn has 2^32 random numbers: the first half for tokens, and the second half
// for lengths and choices.
constexpr uint64_t TurnAt(int32_t turn) { return uint64_t{static_cast<uint32_t>(turn)} << 32; }
constexpr uint64_t kMessageAt = uint64_t{1} << 30;
constexpr uint64_t kDocumentLengthAt = uint64_t{1} << 31;
constexpr uint64_t kMessageLengthAt = kDocumentLengthAt + 1, kEditLengthAt = kDocumentLengthAt + 2,
                   kTopicAt = kDocumentLengthAt + 3;

// Returns the seed of the random numbers of the workload `name`. Workloads get different seeds for
// the same `seed`, so that the prompts of two workloads do not begin with the same tokens.
uint64_t SeedOf(uint64_t seed, std::string_view name) {
  for (const char letter : name) {
    seed = RandomBits(seed, kSystemStream, static_cast<unsigned char>(letter));
  }
  return seed;
}

}  // namespace

WorkloadPrompts::WorkloadPrompts(std::vector<uint32_t> tokens, uint64_t seed,
                                 const Workload& workload)
    : tokens_(std::move(tokens)), seed_(SeedOf(seed, workload.name)), workload_(workload) {
  INCIPIT_CHECK(!tokens_.empty());
}

BenchPrompt WorkloadPrompts::Next(int32_t user) {
  const auto index = static_cast<size_t>(user);
  if (index >= conversations_.size()) conversations_.resize(index + 1);
  Conversation& conversation = conversations_[index];
  std::vector<uint32_t>& history = conversation.history;
  const uint64_t turn_at = TurnAt(conversation.turn);
  if (conversation.turn == 0) {
    Begin(conversation);
  } else if (workload_.edit.max > 0) {
    const int32_t num_replaced =
        std::min(Length(workload_.edit, conversation.stream, turn_at + kEditLengthAt),
                 static_cast<int32_t>(history.size()));
    history.resize(history.size() - static_cast<size_t>(num_replaced));
    Append(history, num_replaced, conversation.stream, turn_at);
  }
  Append(history, Length(workload_.message, conversation.stream, turn_at + kMessageLengthAt),
         conversation.stream, turn_at + kMessageAt);
  return {history, workload_.output_tokens};
}

void WorkloadPrompts::OnEnd(int32_t user, bool succeeded, std::span<const uint32_t> output) {
  Conversation& conversation = conversations_[static_cast<size_t>(user)];
  if (!succeeded || ++conversation.turn == workload_.num_turns) {
    conversation = {};
    return;
  }
  if (workload_.keeps_output) {
    conversation.history.insert(conversation.history.end(), output.begin(), output.end());
  }
}

// Begins a new conversation. Fills its history with the tokens that all prompts share, and with the
// document of the conversation.
void WorkloadPrompts::Begin(Conversation& conversation) {
  conversation.stream = kFirstStream + num_conversations_++;
  uint32_t document_stream = conversation.stream;
  if (workload_.num_topics > 0) {
    const uint64_t bits = RandomBits(seed_, conversation.stream, kTopicAt);
    document_stream = kLastTopicStream -
                      static_cast<uint32_t>(bits % static_cast<uint64_t>(workload_.num_topics));
  }
  Append(conversation.history, workload_.shared_tokens, kSystemStream, 0);
  Append(conversation.history, Length(workload_.document, document_stream, kDocumentLengthAt),
         document_stream, 0);
}

// Returns a random length in `range`.
int32_t WorkloadPrompts::Length(LengthRange range, uint32_t stream, uint64_t position) const {
  const auto num_lengths = static_cast<uint64_t>(range.max - range.min) + 1;
  return range.min + static_cast<int32_t>(RandomBits(seed_, stream, position) % num_lengths);
}

// Appends `num_tokens` random tokens to `prompt`. Token i is computed from random number `position`
// + i of the random number stream `stream`.
void WorkloadPrompts::Append(std::vector<uint32_t>& prompt, int32_t num_tokens, uint32_t stream,
                             uint64_t position) const {
  for (int32_t i = 0; i < num_tokens; ++i) {
    const uint64_t bits = RandomBits(seed_, stream, position + static_cast<uint64_t>(i));
    prompt.push_back(tokens_[bits % tokens_.size()]);
  }
}

}  // namespace incipit
