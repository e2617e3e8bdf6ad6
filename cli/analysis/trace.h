// Logs of requests as JSON lines, which `analyze` and `replay` read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"

namespace incipit {

// Larger logs are refused. A line has its own bound, kJsonLineBytesMax.
inline constexpr size_t kTraceRequestsMax = 10'000'000;
inline constexpr size_t kTraceIdsMax = 200'000'000;  // of blocks or tokens, over all requests

// What a log's prompts are given as; the same for all its lines.
enum class TraceForm : uint8_t { kHashIds, kTokenIds };

// One of hash_ids and token_ids is filled, as the trace's form says.
struct TraceRequest {
  int64_t line = 0;           // of the log, from 1
  double timestamp = 0;       // in the log's unit, usually ms; 0 where it has none
  int64_t input_length = 0;   // tokens of the prompt; 0 where a log of hash ids has none
  int64_t output_length = 0;  // tokens of the answer; 0 where the log has none
  // One a block; equal ids mean equal blocks after equal prefixes.
  std::vector<uint64_t> hash_ids{};
  std::vector<TokenId> token_ids{};
};

struct Trace {
  TraceForm form = TraceForm::kHashIds;
  std::vector<TraceRequest> requests;  // in the order of the log
};

using TraceTokenizer = std::function<absl::StatusOr<std::vector<TokenId>>(std::string_view text)>;

// Each line is an object with `hash_ids`, or `token_ids` (also `prompt_token_ids`, `input_ids`,
// `ids`), or `prompt` (also `text`): token ids, or a text, for which `tokenizer` is needed (empty
// refuses it); of several the first in this order counts. `timestamp`, `input_length` and
// `output_length` may be there; other keys are not looked at, null counts as absent, blank lines
// are skipped. A line may also be the array of token ids or the text itself. INVALID_ARGUMENT names
// `name`, the line's number and what is wrong with it; a log without a request is wrong too.
absl::StatusOr<Trace> ReadTrace(std::FILE* in, const std::string& name,
                                const TraceTokenizer& tokenizer);

// The same from a file, or from stdin if `path` is "-". NOT_FOUND or INTERNAL if it cannot be read.
absl::StatusOr<Trace> ReadTraceFile(const std::string& path, const TraceTokenizer& tokenizer);

}  // namespace incipit
