#include "kernels/cuda/host/sample_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/random.h"
#include "kernels/checks.h"
#include "kernels/sampling.h"

namespace incipit::cuda {
namespace {

// Reserves `bytes` bytes at offset `end` and returns this offset. Then increases `end` by `bytes`,
// and rounds `end` up to a multiple of 16.
size_t Place(size_t& end, size_t bytes) {
  const size_t begin = end;
  end = (end + bytes + 15) / 16 * 16;
  return begin;
}

template <class T>
void StoreAt(std::byte* to, size_t index, const T& value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

int32_t NumTopOf(int32_t wanted, int64_t vocab_size) {
  const int64_t num_top = std::min<int64_t>(std::max(wanted, 0), vocab_size);
  INCIPIT_CHECK(num_top <= kTopMax);
  return static_cast<int32_t>(num_top);
}

constexpr TokenId kNoToken = std::numeric_limits<TokenId>::max();

// Iterates over a list that is sorted by token id.
template <class List>
class SortedTokens {
 public:
  explicit SortedTokens(const List& list) : list_(list) {}
  TokenId next() const { return position_ < list_.size() ? TokenOf(list_[position_]) : kNoToken; }
  const auto& Take() { return list_[position_++]; }

 private:
  static TokenId TokenOf(TokenId token) { return token; }
  template <class Entry>
  static TokenId TokenOf(const Entry& entry) {
    return entry.token;
  }

  const List& list_;
  size_t position_ = 0;
};

bool CountsPendingToken(const StepSample& sample) {
  return sample.pending_sample >= 0 && sample.params->has_penalties();
}

void AppendNoLogprobs(TokenId token, Logprobs& logprobs) {
  logprobs.chosen.push_back({token, 0});
  logprobs.rank.push_back(0);
  logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
}

}  // namespace

SampleLayout::SampleLayout(const SampleCapacity& capacity) : capacity_(capacity) {
  const auto rows = static_cast<size_t>(capacity.rows);
  size_t end = 0;
  Place(end, sizeof(SampleHeader));
  groups_ = Place(end, rows * sizeof(SampleGroup));
  entries_ = Place(end, rows * std::max(sizeof(SampleEntry), sizeof(ScoreEntry)));
  patches_ = end;

  size_t out = 0;
  Place(out, rows * sizeof(int32_t));
  status_ = Place(out, rows * sizeof(int32_t));
  scores_ = Place(out, rows * sizeof(TokenScore));
  tops_ = out;
}

ScoreInputs SampleLayout::ScoresAt(const std::byte* block) const {
  return {.num_entries = reinterpret_cast<const int32_t*>(block),
          .entries = reinterpret_cast<const ScoreEntry*>(block + entries_)};
}

SampleOutputs SampleLayout::OutputsAt(std::byte* block) const {
  return {.tokens = reinterpret_cast<int32_t*>(block),
          .status = reinterpret_cast<int32_t*>(block + status_),
          .scores = reinterpret_cast<TokenScore*>(block + scores_),
          .tops = reinterpret_cast<TopLogit*>(block + tops_)};
}

SamplePlan::SamplePlan(const SampleCapacity& capacity, std::byte* inputs, std::byte* outputs)
    : layout_(capacity), inputs_(inputs), outputs_(layout_.OutputsAt(outputs)) {
  INCIPIT_CHECK(capacity.rows > 0);
  samples_.reserve(static_cast<size_t>(capacity.rows));
}

void SamplePlan::Begin() {
  samples_.clear();
  num_groups_ = 0;
  num_patches_ = 0;
  num_tops_ = 0;
  has_scores_ = false;
}

bool SamplePlan::Fits(size_t num_rows, size_t num_patches, int32_t num_top) const {
  const SampleCapacity& capacity = layout_.capacity();
  return num_rows < static_cast<size_t>(capacity.rows) &&
         num_patches_ + num_patches <= static_cast<size_t>(capacity.patches) &&
         num_tops_ + num_top <= capacity.tops;
}

size_t SamplePlan::Pack(const SampleArgs& args, size_t begin, const SampledRange& sampled) {
  CheckLogits(args.logits);
  Begin();
  std::byte* const patches = inputs_ + layout_.patches();
  size_t i = begin;
  for (; i < args.samples.size(); ++i) {
    const StepSample& sample = args.samples[i];
    const int32_t row = args.logits_rows[i];
    INCIPIT_CHECK(row >= 0 && row < args.logits.rows);
    const int32_t num_top = NumTopOf(sample.params->num_logprobs, args.logits.cols);
    CollectPatches(sample, args.logits.cols);
    if (!Fits(i - begin, patches_.size(), num_top)) break;
    SampleEntry entry = EntryOf(sample, sampled.which);
    entry.index = static_cast<int32_t>(i - begin);
    entry.sampled = SampledIndex(sampled.first + static_cast<int64_t>(i), sampled.which);
    entry.patch_begin = num_patches_;
    entry.top_begin = num_tops_;
    for (const LogitPatch& patch : patches_) StoreAt(patches, num_patches_++, patch);
    entry.patch_end = num_patches_;
    num_tops_ += num_top;
    has_scores_ |= sample.params->num_logprobs >= 0;
    samples_.push_back({row, entry});
  }
  INCIPIT_CHECK(i > begin || args.samples.empty());
  StoreSamples();
  return i;
}

// Stores in patches_ the changes of logits by the penalties, biases and bans of `sample`, sorted by
// token id. The host may not know the newest output token yet (the pending token). If penalties
// count this token, appends a patch with the placeholder LogitPatch::kPendingToken. Kernel Sample
// uses the placeholder only if no other patch has the id of the pending token.
void SamplePlan::CollectPatches(const StepSample& sample, int64_t vocab_size) {
  patches_.clear();
  banned_.assign(sample.banned.begin(), sample.banned.end());
  std::sort(banned_.begin(), banned_.end());
  SortedTokens counts(sample.counts);
  SortedTokens biases(sample.params->logit_bias);
  SortedTokens banned(banned_);
  const bool has_penalties = sample.params->has_penalties();
  TokenId before = std::numeric_limits<TokenId>::min();
  for (;;) {
    LogitPatch patch;
    patch.token = std::min({counts.next(), biases.next(), banned.next()});
    if (patch.token == kNoToken) break;
    INCIPIT_CHECK(patch.token > before);
    before = patch.token;
    if (counts.next() == patch.token) {
      const TokenCount& count = counts.Take();
      const bool counted = has_penalties && count.in_prompt + count.in_output > 0;
      patch.kinds |= counted ? LogitPatch::kPenalized : 0;
      patch.in_output = count.in_output;
    }
    if (biases.next() == patch.token) {
      patch.kinds |= LogitPatch::kBiased;
      patch.bias = biases.Take().bias;
    }
    while (banned.next() == patch.token) {
      patch.kinds |= LogitPatch::kBanned;
      banned.Take();
    }
    if (patch.token >= 0 && patch.token < vocab_size && patch.kinds != 0) patches_.push_back(patch);
  }
  if (CountsPendingToken(sample)) patches_.push_back({.token = LogitPatch::kPendingToken});
}

SampleEntry SamplePlan::EntryOf(const StepSample& sample, size_t which) const {
  const SamplingParams& params = *sample.params;
  SampleEntry entry;
  entry.greedy = params.temperature <= 0 ? 1 : 0;
  entry.inverse_temperature = entry.greedy != 0 ? 1 : InverseTemperature(params.temperature);
  entry.top_k = params.top_k;
  entry.top_p_share = TopPMass(params.top_p, uint64_t{1} << 63);
  entry.min_p_mass = MinPMass(params.min_p);
  entry.random_bits = RandomBits(params.seed, static_cast<uint32_t>(sample.choice),
                                 static_cast<uint64_t>(sample.position));
  entry.repetition_penalty = params.repetition_penalty;
  entry.frequency_penalty = params.frequency_penalty;
  entry.presence_penalty = params.presence_penalty;
  entry.num_top = params.num_logprobs;
  if (CountsPendingToken(sample)) entry.pending = SampledIndex(sample.pending_sample, 1 - which);
  return entry;
}

// Writes the inputs of the kernel Sample: the sampling parameters of each token to sample, grouped
// by the row of logits from which the token is sampled.
void SamplePlan::StoreSamples() {
  std::sort(samples_.begin(), samples_.end(), [](const RowEntry& a, const RowEntry& b) {
    return std::pair(a.logits_row, a.entry.index) < std::pair(b.logits_row, b.entry.index);
  });
  std::byte* const groups = inputs_ + layout_.groups();
  std::byte* const entries = inputs_ + layout_.entries();
  for (size_t i = 0; i < samples_.size();) {
    SampleGroup group = {.logits_row = samples_[i].logits_row,
                         .entry_begin = static_cast<int32_t>(i)};
    for (; i < samples_.size() && samples_[i].logits_row == group.logits_row; ++i) {
      StoreAt(entries, i, samples_[i].entry);
    }
    group.entry_end = static_cast<int32_t>(i);
    StoreAt(groups, num_groups_++, group);
  }
  StoreAt(inputs_, 0,
          SampleHeader{.num_groups = num_groups_,
                       .groups = static_cast<int32_t>(layout_.groups()),
                       .entries = static_cast<int32_t>(layout_.entries()),
                       .patches = static_cast<int32_t>(layout_.patches())});
}

PackedSamples SamplePlan::samples() const {
  const auto array = [this](size_t begin, size_t count, size_t size) {
    return std::span<const std::byte>(inputs_ + begin, count * size);
  };
  return {
      .num_groups = num_groups_,
      .groups = array(layout_.groups(), static_cast<size_t>(num_groups_), sizeof(SampleGroup)),
      .entries = array(layout_.entries(), samples_.size(), sizeof(SampleEntry)),
      .patches = array(layout_.patches(), static_cast<size_t>(num_patches_), sizeof(LogitPatch))};
}

size_t SamplePlan::Pack(const ScoreArgs& args, size_t begin) {
  CheckLogits(args.logits);
  Begin();
  has_scores_ = true;
  std::byte* const entries = inputs_ + layout_.entries();
  size_t i = begin;
  for (; i < args.scores.size(); ++i) {
    const StepScore& score = args.scores[i];
    const int32_t row = args.logits_rows[i];
    INCIPIT_CHECK(row >= 0 && row < args.logits.rows);
    INCIPIT_CHECK(score.target >= 0 && score.target < args.logits.cols);
    const int32_t num_top = NumTopOf(score.num_top, args.logits.cols);
    if (!Fits(i - begin, 0, num_top)) break;
    StoreAt(
        entries, i - begin,
        ScoreEntry{
            .logits_row = row, .target = score.target, .num_top = num_top, .top_begin = num_tops_});
    num_tops_ += num_top;
  }
  INCIPIT_CHECK(i > begin || args.scores.empty());
  StoreAt(inputs_, 0, static_cast<int32_t>(i - begin));
  return i;
}

void SamplePlan::AppendLogprobs(const TokenScore& score, TokenId token,
                                std::span<const TopLogit> tops, Logprobs& logprobs) const {
  const double log_of_mass = LogOfMass(score.row_mass);
  logprobs.chosen.push_back({token, LogProbability(score.logit, score.row_max, log_of_mass)});
  logprobs.rank.push_back(score.rank);
  for (const TopLogit& top : tops) {
    logprobs.top.push_back({top.token, LogProbability(top.logit, score.row_max, log_of_mass)});
  }
  logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
}

void SamplePlan::Unpack(const SampleArgs& args, size_t begin, size_t end) const {
  size_t top_begin = 0;
  for (size_t i = begin; i < end; ++i) {
    const size_t index = i - begin;
    args.tokens[i] = outputs_.tokens[index];
    args.status[i] = static_cast<RowStatus>(outputs_.status[index]);
    const int32_t wanted = args.samples[i].params->num_logprobs;
    if (wanted < 0) continue;
    const auto num_top = static_cast<size_t>(NumTopOf(wanted, args.logits.cols));
    if (args.status[i] == RowStatus::kOk) {
      AppendLogprobs(outputs_.scores[index], args.tokens[i], {outputs_.tops + top_begin, num_top},
                     *args.logprobs);
    } else {
      AppendNoLogprobs(args.tokens[i], *args.logprobs);
    }
    top_begin += num_top;
  }
}

void SamplePlan::Unpack(const ScoreArgs& args, size_t begin, size_t end) const {
  size_t top_begin = 0;
  for (size_t i = begin; i < end; ++i) {
    const size_t index = i - begin;
    const StepScore& score = args.scores[i];
    args.status[i] = static_cast<RowStatus>(outputs_.status[index]);
    const auto num_top = static_cast<size_t>(NumTopOf(score.num_top, args.logits.cols));
    if (args.status[i] == RowStatus::kOk) {
      AppendLogprobs(outputs_.scores[index], score.target, {outputs_.tops + top_begin, num_top},
                     *args.logprobs);
    } else {
      AppendNoLogprobs(score.target, *args.logprobs);
    }
    top_begin += num_top;
  }
}

}  // namespace incipit::cuda
