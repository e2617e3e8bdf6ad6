// Reads logs of requests as JSON lines, for the commands `analyze` and `replay`.
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

// Maximum number of requests in a log. ReadTrace() returns an error for a log with more requests.
inline constexpr size_t kTraceRequestsMax = 10'000'000;
// Maximum number of ids (hash ids or token ids) in a log, summed over all requests.
inline constexpr size_t kTraceIdsMax = 200'000'000;

// The form of the prompts in a log: hash ids of blocks, or token ids. All prompts of a log have the
// same form.
enum class TraceForm : uint8_t { kHashIds, kTokenIds };

// One request of a log. The prompt is stored either in `hash_ids` or in `token_ids`.
struct TraceRequest {
  int64_t line = 0;           // line number of the request in the log, starting at 1
  double timestamp = 0;       // arrival time, in the time unit of the log; 0: no time is given
  int64_t input_length = 0;   // number of prompt tokens; 0: unknown (only in logs of hash ids)
  int64_t output_length = 0;  // number of output tokens; 0: unknown
  // One id for each block of the prompt. Blocks with equal ids have equal contents and equal
  // previous blocks.
  std::vector<uint64_t> hash_ids{};
  std::vector<TokenId> token_ids{};
};

struct Trace {
  TraceForm form = TraceForm::kHashIds;
  std::vector<TraceRequest> requests;  // requests in the order of the log
};

using TraceTokenizer = std::function<absl::StatusOr<std::vector<TokenId>>(std::string_view text)>;

// Reads a log with one request per line. A line is a prompt, or an object with a prompt under one
// of these keys, in order of priority:
// - `hash_ids`: an array of hash ids
// - `token_ids`, `prompt_token_ids`, `input_ids` or `ids`: an array of token ids
// - `prompt` or `text`: a text or an array of token ids
//
// Also reads the keys `timestamp`, `input_length` and `output_length`. Ignores other keys, null
// values and blank lines. `tokenizer` converts texts to token ids; if `tokenizer` is empty, a text
// is an error. Returns INVALID_ARGUMENT if a line is wrong or the log has no request.
absl::StatusOr<Trace> ReadTrace(std::FILE* in, const std::string& name,
                                const TraceTokenizer& tokenizer);

// Calls ReadTrace() for the file `path`, or for stdin if `path` is "-". Returns NOT_FOUND if the
// file cannot be opened, and INTERNAL if reading fails.
absl::StatusOr<Trace> ReadTraceFile(const std::string& path, const TraceTokenizer& tokenizer);

}  // namespace incipit
