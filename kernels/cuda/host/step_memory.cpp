#include "kernels/cuda/host/step_memory.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/host/sampler.h"

namespace incipit::cuda {
namespace {

constexpr size_t kAlignment = 16;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Limits for decode attention in a step (batch): number of sequences, and total number of their
// positions. Above a limit, kernel PrefillAttention computes the attention.
constexpr int64_t kPartialSequences = 256, kPartialPositions = 1 << 20;

int32_t PartialRowsMax(const StepBounds& bounds, const AttentionForm& form) {
  const int64_t positions = std::min(bounds.blocks_max * form.page_size, kPartialPositions);
  const int64_t sequences =
      std::min({int64_t{bounds.tokens_max}, int64_t{bounds.sequences_max}, kPartialSequences});
  // Each sequence may have two additional splits (ranges of positions), because its first and its
  // last split may be shorter than the split length.
  const int64_t splits =
      std::min(positions / SplitLength(0) + 2 * sequences, sequences * kMaxSplits);
  // Maximum number of partial results per query head if the step has only one sequence: kMaxSplits
  // ranges of positions for each of up to max_decode_tokens tokens.
  const int64_t alone = int64_t{kMaxSplits} * AttentionPlanOptions{}.max_decode_tokens;
  return static_cast<int32_t>(form.group * std::max(splits, alone));
}

// Copies `array` to `memory`, at byte offset `used` rounded up to a multiple of 16. Returns the
// rounded offset, and sets `used` to the byte offset of the end of the array.
template <class T>
size_t PutBehind(std::span<const T> array, char* memory, size_t& used) {
  const size_t begin = Aligned(used);
  if (!array.empty()) std::memcpy(memory + begin, array.data(), array.size_bytes());
  used = begin + array.size_bytes();
  return begin;
}

// A number -1 - i in `tokens` is a placeholder for the token of sample i of step `which`. Replaces
// i by the index of this token in the device array of sampled tokens.
void PointToSampled(std::span<int32_t> tokens, size_t which) {
  for (int32_t& token : tokens) {
    if (token < 0) token = -1 - SampledIndex(-1 - token, which);
  }
}

}  // namespace

absl::Status StepMemory::Reserve(const StepBounds& bounds, const AttentionForm& form) {
  AttentionPlan attention({.page_size = form.page_size,
                           .group = form.group,
                           .max_tokens = bounds.tokens_max,
                           .max_sequences = bounds.sequences_max,
                           .max_pages = static_cast<int32_t>(bounds.blocks_max),
                           .windows = form.windows.empty() ? std::vector<int32_t>{0} : form.windows,
                           .max_partial_rows = PartialRowsMax(bounds, form)});
  const size_t token_bytes = static_cast<size_t>(bounds.tokens_max) * sizeof(int32_t);
  const size_t bytes = kPlanAt + Aligned(attention.max_bytes()) + 2 * Aligned(token_bytes) +
                       Aligned(RowSampler::PackedBytesMax());
  INCIPIT_ASSIGN_OR_RETURN(Memory device, Memory::Allocate(Place::kDevice, bytes));
  std::array<Memory, 2> pinned;
  for (Memory& memory : pinned) {
    INCIPIT_ASSIGN_OR_RETURN(memory, Memory::Allocate(Place::kPinned, bytes));
    for (int32_t i = 0; i <= kFirstRows; ++i) memory.as<int32_t>()[i] = i;
  }
  // The members of this object change only after all allocations have succeeded.
  bounds_ = bounds;
  form_ = form;
  attention_.emplace(std::move(attention));
  device_ = std::move(device);
  pinned_ = std::move(pinned);
  return absl::OkStatus();
}

bool StepMemory::Holds(const Step& step, std::span<const int32_t> logits_rows) const {
  return std::ssize(step.tokens) <= bounds_.tokens_max &&
         std::ssize(logits_rows) <= bounds_.tokens_max &&
         std::ssize(step.token_begin) <= bounds_.sequences_max + 1 &&
         std::ssize(step.blocks) <= bounds_.blocks_max;
}

// Returns true if form_ (the properties of the model's attention) is known, and each sequence of
// `step` has enough KV cache pages for its tokens.
bool StepMemory::FitsForm(const Step& step) const {
  if (form_.windows.empty()) return false;
  for (size_t s = 0; s + 1 < step.token_begin.size(); ++s) {
    if (step.token_begin[s] == step.token_begin[s + 1]) continue;
    const int32_t last = step.positions[static_cast<size_t>(step.token_begin[s + 1] - 1)];
    if (step.block_begin[s] + last / form_.page_size >= step.block_begin[s + 1]) return false;
  }
  return true;
}

bool StepMemory::Upload(const Step& step, std::span<const int32_t> logits_rows,
                        const std::optional<PackedSamples>& samples, size_t which, Stream& stream) {
  INCIPIT_CHECK(Holds(step, logits_rows));
  char* const memory = pinned_[which].as<char>();
  std::byte* const plan = pinned_[which].as<std::byte>() + kPlanAt;
  const bool is_planned = FitsForm(step);
  size_t used = kPlanAt + sizeof(StepHeader);
  host_header_ = {.num_tokens = static_cast<int32_t>(step.tokens.size())};
  if (is_planned) {
    used = kPlanAt + attention_->Build(step, {plan, attention_->max_bytes()});
    std::memcpy(&host_header_, plan, sizeof(host_header_));
  }
  const size_t tokens = PutBehind(step.tokens, memory, used);
  PointToSampled({reinterpret_cast<int32_t*>(memory + tokens), step.tokens.size()}, 1 - which);
  host_header_.tokens = static_cast<int32_t>(tokens - kPlanAt);
  logits_rows_ = PutBehind(logits_rows, memory, used);
  const size_t first = std::min<size_t>(logits_rows.size(), kFirstRows);
  *reinterpret_cast<int32_t*>(memory + kNumRowsAt) = static_cast<int32_t>(first);
  std::copy_n(logits_rows.begin(), first, reinterpret_cast<int32_t*>(memory + kRowsAt));
  if (samples.has_value()) {
    const auto put = [&](std::span<const std::byte> array) {
      return static_cast<int32_t>(PutBehind(array, memory, used) - kSamplesAt);
    };
    const SampleHeader header = {.num_groups = samples->num_groups,
                                 .groups = put(samples->groups),
                                 .entries = put(samples->entries),
                                 .patches = put(samples->patches)};
    std::memcpy(memory + kSamplesAt, &header, sizeof(header));
  }
  std::memcpy(plan, &host_header_, sizeof(host_header_));
  stream.Copy(device_.data(), memory, used);
  return is_planned;
}

}  // namespace incipit::cuda
