#include "cli/analysis/analyze_input.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

// The block sizes that `incipit analyze` analyses, as multiples of the smallest block size.
constexpr int32_t kGroups[] = {1, 2, 4, 8};
// Index in kGroups of the block size that tables use if they show only one block size.
constexpr size_t kDefaultDetail = 1;

// Finds contradictions in a log, such as decreasing timestamps, and describes them in sentences.
class OddityNotes {
 public:
  OddityNotes(TraceForm form, int32_t block_size) : form_(form), block_size_(block_size) {}

  void Look(const TraceRequest& request) {
    ++num_requests_;
    if (num_requests_ > 1 && request.timestamp < latest_) {
      if (num_back_++ == 0) first_back_ = request.line;
    }
    latest_ = num_requests_ == 1 ? request.timestamp : std::max(latest_, request.timestamp);
    if (form_ != TraceForm::kHashIds) return;
    ids_.insert(request.hash_ids.begin(), request.hash_ids.end());
    const auto num_ids = static_cast<int64_t>(request.hash_ids.size());
    const bool fits =
        request.input_length == 0 || (request.input_length > (num_ids - 1) * block_size_ &&
                                      request.input_length < (num_ids + 1) * block_size_);
    if (!fits && num_misfits_++ == 0) first_misfit_ = {request.line, num_ids, request.input_length};
  }

  std::vector<std::string> Finish(size_t num_nodes) const {
    std::vector<std::string> notes;
    if (num_misfits_ > 0) {
      notes.push_back(fmt::format(
          "in {} of {} requests, input_length does not fit the number of hash_ids ({} tokens per "
          "id); for example, line {} has {} ids, and its input_length is {}. Is --block-size "
          "right?",
          num_misfits_, num_requests_, block_size_, first_misfit_.line, first_misfit_.num_ids,
          first_misfit_.num_tokens));
    }
    if (form_ == TraceForm::kHashIds && num_nodes > ids_.size()) {
      notes.push_back(fmt::format(
          "some of the {} hash ids have different previous blocks in different prompts. Such a "
          "hash id counts as several blocks, so the log has {} distinct blocks. A hash id should "
          "stand for a block and all previous blocks of the prompt.",
          ids_.size(), num_nodes));
    }
    if (num_back_ > 0) {
      notes.push_back(fmt::format(
          "{} timestamps, the first in line {}, are earlier than a previous timestamp. The lines "
          "stay in the order of the log; each of these timestamps is replaced by the latest "
          "timestamp before it.",
          num_back_, first_back_));
    }
    return notes;
  }

 private:
  struct Misfit {
    int64_t line = 0, num_ids = 0, num_tokens = 0;
  };

  const TraceForm form_;
  const int32_t block_size_;
  int64_t num_requests_ = 0, num_back_ = 0, first_back_ = 0, num_misfits_ = 0;
  double latest_ = 0;
  Misfit first_misfit_;
  absl::flat_hash_set<uint64_t> ids_;
};

std::span<const std::byte> FullBlocks(const TraceRequest& request, TraceForm form,
                                      int32_t block_size) {
  if (form == TraceForm::kHashIds) return std::as_bytes(std::span(request.hash_ids));
  const auto size = static_cast<size_t>(block_size);
  return std::as_bytes(std::span(request.token_ids).first(request.token_ids.size() / size * size));
}

int64_t NumTokens(const TraceRequest& request, TraceForm form, int32_t block_size) {
  if (form == TraceForm::kTokenIds) return static_cast<int64_t>(request.token_ids.size());
  return request.input_length > 0 ? request.input_length
                                  : static_cast<int64_t>(request.hash_ids.size()) * block_size;
}

}  // namespace

double SecondsOf(TimestampUnit unit) {
  switch (unit) {
    case TimestampUnit::kSeconds:
      return 1;
    case TimestampUnit::kMilliseconds:
      return 1e-3;
    case TimestampUnit::kMicroseconds:
      return 1e-6;
    case TimestampUnit::kNanoseconds:
      return 1e-9;
  }
  INCIPIT_CHECK(false);
}

absl::StatusOr<AnalysisInput> MakeBlocks(Trace trace, const BlockingOptions& options) {
  const bool is_hashed = trace.form == TraceForm::kHashIds;
  const int32_t block_size =
      options.block_size.value_or(is_hashed ? kHashLogBlockSize : kTokenLogBlockSize);
  AnalysisInput input;
  input.name = options.name;
  input.form = trace.form;
  input.groups.assign(std::begin(kGroups), std::end(kGroups));
  input.detail = is_hashed || options.block_size ? 0 : kDefaultDetail;
  input.log = std::make_unique<BlockLog>(
      is_hashed ? sizeof(uint64_t) : sizeof(TokenId) * static_cast<size_t>(block_size), block_size);

  OddityNotes notes(trace.form, block_size);
  double latest = 0;
  for (TraceRequest& request : trace.requests) {
    notes.Look(request);
    const double time =
        (request.timestamp - trace.requests[0].timestamp) * SecondsOf(options.timestamp_unit);
    if (!(std::abs(time) <= kLogSecondsMax)) {
      return InvalidArgument(
          "{}:{}: the timestamp is {} s from the first timestamp, more than the maximum of {} s; "
          "is "
          "--time-unit right?",
          options.name, request.line, time, kLogSecondsMax);
    }
    latest = std::max(latest, time);
    const LoggedRequest logged = {latest, NumTokens(request, trace.form, block_size), request.line};
    const absl::Status added = input.log->Add(logged, FullBlocks(request, trace.form, block_size));
    if (!added.ok()) return Annotate(added, fmt::format("{}:{}", options.name, request.line));
    input.output_tokens += request.output_length;
    // Free the memory of the ids, which can need gigabytes: `input.log` now holds the blocks.
    request.hash_ids = {};
    request.token_ids = {};
  }
  input.notes = notes.Finish(input.log->num_nodes());
  return input;
}

}  // namespace incipit
