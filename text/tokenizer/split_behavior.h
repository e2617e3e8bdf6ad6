// Joins or drops the matched and unmatched parts of a text, as the pre-tokenizer requests.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "text/regex/regex.h"

namespace incipit {

// The parts into which a text is split at the matches of a pattern. Each comment shows the parts of
// "a-b--c" for the pattern "-".
enum class SplitBehavior : uint8_t {
  kRemoved,             // "a-b--c" becomes a, b, c
  kIsolated,            // "a-b--c" becomes a, -, b, -, -, c
  kMergedWithPrevious,  // "a-b--c" becomes a-, b-, -, c
  kMergedWithNext,      // "a-b--c" becomes a, -b, -, -c
  kContiguous,          // "a-b--c" becomes a, -, b, --, c
};

// Reads the field `name`. Returns kIsolated if the field is missing.
absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonFields& fields, const char* name);

// Receives the spans of one text in order, and passes the resulting parts of the text to `sink`.
class SpanMerger {
 public:
  SpanMerger(SplitBehavior behavior, SpanSink sink) : behavior_(behavior), sink_(sink) {}

  absl::Status Add(const Span& span);
  absl::Status Finish();

 private:
  absl::Status Replace(const Span& span);

  SplitBehavior behavior_;
  SpanSink sink_;
  std::optional<Span> held_;  // last part, held back because the next span may extend the part
  bool previous_matched_ = false;
};

}  // namespace incipit
