#include "kernels/cuda/host/attention_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace incipit::cuda {
namespace {

constexpr size_t kAlignment = 16;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int32_t CeilDivide(int32_t a, int32_t b) { return (a + b - 1) / b; }

// Returns the first position that the token at `position` attends to. `window` is the sliding
// window in positions; 0: no window.
int32_t Lowest(int32_t position, int32_t window) { return position + 1 - Span(position, window); }

// Returns the maximum number of PrefillTiles (work items of prefill attention) for a step (batch)
// within the limits of `options`.
size_t MaxPrefillTiles(const AttentionPlanOptions& options) {
  const int64_t rows = int64_t{options.max_tokens} * options.group;
  // All tokens of a work item have the same SplitLength(). SplitLength() changes at most once in
  // 8,192 consecutive positions of a sequence. Each change can add one work item.
  const int64_t parts = 2 * int64_t{options.max_sequences} + options.max_tokens / 8192 + 1;
  return static_cast<size_t>(rows / kPrefillRows + parts);
}

// Appends arrays to a preallocated memory range. Each array is aligned to 16 bytes.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}

  template <class T>
  std::span<T> Add(size_t count) {
    INCIPIT_CHECK(used_ + count * sizeof(T) <= out_.size());
    T* array = reinterpret_cast<T*>(out_.data() + used_);
    last_ = static_cast<int32_t>(used_);
    used_ = Aligned(used_ + count * sizeof(T));
    return {array, count};
  }
  template <class T>
  int32_t Copy(const std::vector<T>& values) {
    const std::span<T> to = Add<T>(values.size());
    if (!values.empty()) std::memcpy(to.data(), values.data(), to.size_bytes());
    return last_;
  }
  // offset in bytes, from the start of the memory range, of the array that was appended last
  int32_t last() const { return last_; }
  size_t used() const { return used_; }

 private:
  std::span<std::byte> out_;
  size_t used_ = 0;
  int32_t last_ = 0;
};

void WriteRows(const Step& step, int32_t page_size, std::span<StepRow> rows) {
  for (size_t s = 0; s + 1 < step.token_begin.size(); ++s) {
    const int32_t table = step.block_begin[s];
    for (int32_t t = step.token_begin[s]; t < step.token_begin[s + 1]; ++t) {
      const int32_t position = step.positions[t];
      const int32_t page = position / page_size;
      INCIPIT_CHECK(table + page < step.block_begin[s + 1]);
      rows[t].position = position;
      rows[t].slot =
          static_cast<int32_t>(step.blocks[table + page]) * page_size + position % page_size;
      rows[t].table = table;
      rows[t].length = step.positions[step.token_begin[s + 1] - 1] + 1;
    }
  }
}

}  // namespace

struct AttentionPlan::Part {
  int32_t token = 0, num_tokens = 0, position = 0, table = 0;
  int32_t window = 0, split_length = 0, group = 1;

  int32_t num_rows() const { return num_tokens * group; }
  // Returns the first position to which attention row `first` attends. An attention row is a pair
  // of token and query head.
  int32_t begin(int32_t first) const { return Lowest(position + first / group, window); }
  // Returns the end (1 plus the last position) of the range to which the last of the attention rows
  // [first, first + count) attends.
  int32_t end(int32_t first, int32_t count) const {
    return position + (first + count - 1) / group + 1;
  }
};

AttentionPlan::AttentionPlan(const AttentionPlanOptions& options) : options_(options) {
  INCIPIT_CHECK(!options.windows.empty() && options.windows.size() <= kMaxWindows);
  const size_t max_prefill_tiles = MaxPrefillTiles(options);
  decode_items_.reserve(options.max_decode_items);
  sorted_items_.reserve(options.max_decode_items);
  prefill_tiles_.reserve(max_prefill_tiles);
  const size_t list_bytes = Aligned(options.max_decode_items * sizeof(DecodeItem)) +
                            Aligned(max_prefill_tiles * sizeof(PrefillTile));
  max_bytes_ = Aligned(sizeof(StepHeader)) + Aligned(options.max_tokens * sizeof(StepRow)) +
               Aligned(options.max_pages * sizeof(int32_t)) + options.windows.size() * list_bytes;
}

size_t AttentionPlan::Build(const Step& step, std::span<std::byte> out) {
  const size_t num_sequences = step.token_begin.size() - 1;
  INCIPIT_CHECK(step.positions.size() <= static_cast<size_t>(options_.max_tokens) &&
                num_sequences <= static_cast<size_t>(options_.max_sequences) &&
                step.blocks.size() <= static_cast<size_t>(options_.max_pages));
  Writer writer(out);
  StepHeader& header = writer.Add<StepHeader>(1)[0];
  header = {.num_tokens = static_cast<int32_t>(step.positions.size())};
  WriteRows(step, options_.page_size, writer.Add<StepRow>(step.positions.size()));
  header.rows = writer.last();
  const std::span<int32_t> pages = writer.Add<int32_t>(step.blocks.size());
  std::transform(step.blocks.begin(), step.blocks.end(), pages.begin(),
                 [](BlockId block) { return static_cast<int32_t>(block); });
  header.page_tables = writer.last();

  for (size_t i = 0; i < options_.windows.size(); ++i) {
    decode_items_.clear();
    prefill_tiles_.clear();
    num_decode_tiles_ = num_partial_rows_ = 0;
    for (size_t s = 0; s < num_sequences; ++s) AddSequence(step, s, options_.windows[i]);
    SortDecodeItems();
    std::sort(prefill_tiles_.begin(), prefill_tiles_.end(),
              [](const PrefillTile& a, const PrefillTile& b) {
                const int32_t a_length = a.end - a.begin, b_length = b.end - b.begin;
                if (a_length != b_length) return a_length > b_length;
                return a.token != b.token ? a.token < b.token : a.first_row < b.first_row;
              });
    AttentionList& list = header.lists[i];
    list.num_decode_items = static_cast<int32_t>(sorted_items_.size());
    list.decode_items = writer.Copy(sorted_items_);
    list.num_prefill_tiles = static_cast<int32_t>(prefill_tiles_.size());
    list.prefill_tiles = writer.Copy(prefill_tiles_);
  }
  return writer.used();
}

void AttentionPlan::AddSequence(const Step& step, size_t sequence, int32_t window) {
  const int32_t first = step.token_begin[sequence], last = step.token_begin[sequence + 1];
  const auto split_length = [&](int32_t token) {
    return SplitLength(Span(step.positions[token], window));
  };
  const bool decodes = last - first <= options_.max_decode_tokens;
  for (int32_t token = first; token < last;) {
    Part part{.token = token,
              .position = step.positions[token],
              .table = step.block_begin[sequence],
              .window = window,
              .split_length = split_length(token),
              .group = options_.group};
    while (token < last && split_length(token) == part.split_length) ++token;
    part.num_tokens = token - part.token;
    if (!decodes || !AddDecodeItems(part)) AddPrefillTiles(part);
  }
}

// Appends the work items of decode attention for the tokens of `part`. If the number of work items
// or of partial results would exceed a limit, appends nothing and returns false.
bool AttentionPlan::AddDecodeItems(const Part& part) {
  const size_t num_items_before = decode_items_.size();
  const int32_t num_tiles_before = num_decode_tiles_, num_rows_before = num_partial_rows_;
  for (int32_t first = 0; first < part.num_rows(); first += kDecodeRows) {
    DecodeItem item{.token = part.token,
                    .position = part.position,
                    .first_row = first,
                    .num_rows = std::min(kDecodeRows, part.num_rows() - first),
                    .table = part.table,
                    .partial = num_partial_rows_,
                    .tile = num_decode_tiles_++};
    const int32_t begin = part.begin(first), end = part.end(first, item.num_rows);
    const int32_t first_split = begin / part.split_length;
    item.num_splits = (end - 1) / part.split_length + 1 - first_split;
    if (item.num_splits > 1) num_partial_rows_ += item.num_splits * item.num_rows;
    if (decode_items_.size() + item.num_splits > static_cast<size_t>(options_.max_decode_items) ||
        num_partial_rows_ > options_.max_partial_rows) {
      decode_items_.resize(num_items_before);
      num_decode_tiles_ = num_tiles_before;
      num_partial_rows_ = num_rows_before;
      return false;
    }
    for (item.split = 0; item.split < item.num_splits; ++item.split) {
      const int32_t split_begin = (first_split + item.split) * part.split_length;
      item.begin = std::max(begin, split_begin);
      item.end = std::min(end, split_begin + part.split_length);
      decode_items_.push_back(item);
    }
  }
  return true;
}

void AttentionPlan::AddPrefillTiles(const Part& part) {
  for (int32_t first = 0; first < part.num_rows(); first += kPrefillRows) {
    const int32_t num_rows = std::min(kPrefillRows, part.num_rows() - first);
    INCIPIT_CHECK(prefill_tiles_.size() < prefill_tiles_.capacity());
    prefill_tiles_.push_back({.token = part.token,
                              .position = part.position,
                              .first_row = first,
                              .num_rows = num_rows,
                              .table = part.table,
                              .begin = part.begin(first),
                              .end = part.end(first, num_rows),
                              .split_length = part.split_length});
  }
}

// Sorts the work items of decode attention by number of positions, the largest first, to balance
// the load of the thread blocks. The sort is stable.
void AttentionPlan::SortDecodeItems() {
  constexpr int32_t kNumKeys = 64;
  const auto key = [](const DecodeItem& item) {
    return kNumKeys - 1 - std::min(CeilDivide(item.end - item.begin, kStepPositions), kNumKeys - 1);
  };
  std::array<int32_t, kNumKeys + 1> begin = {};
  for (const DecodeItem& item : decode_items_) ++begin[key(item) + 1];
  for (int32_t i = 0; i < kNumKeys; ++i) begin[i + 1] += begin[i];
  sorted_items_.resize(decode_items_.size());
  for (const DecodeItem& item : decode_items_) sorted_items_[begin[key(item)]++] = item;
}

}  // namespace incipit::cuda
