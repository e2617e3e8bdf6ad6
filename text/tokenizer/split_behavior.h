// Ways to split a text at the matches of a pattern: each match is removed, becomes a separate part,
// or is joined with a neighbouring part.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "text/regex/regex.h"

namespace incipit {

// A way to split a text at the matches of a pattern. The comment of each value shows how the text
// "a-b--c" is split at the pattern "-".
enum class SplitBehavior : uint8_t {
  kRemoved,             // "a-b--c" is split at "-" into a, b, c
  kIsolated,            // "a-b--c" is split at "-" into a, -, b, -, -, c
  kMergedWithPrevious,  // "a-b--c" is split at "-" into a-, b-, -, c
  kMergedWithNext,      // "a-b--c" is split at "-" into a, -b, -, -c
  kContiguous,          // "a-b--c" is split at "-" into a, -, b, --, c
};

// Reads a SplitBehavior from the field `name` of `fields`. Returns kIsolated if the field is
// missing.
absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonFields& fields, const char* name);

// Receives the matches of a pattern in a text, and the ranges without a match, from left to right.
// Joins or removes the matches as `behavior` requires, and passes the resulting parts to `sink`.
class SpanMerger {
 public:
  SpanMerger(SplitBehavior behavior, SpanSink sink) : behavior_(behavior), sink_(sink) {}

  absl::Status Add(const Span& span);
  absl::Status Finish();

 private:
  absl::Status Replace(const Span& span);

  SplitBehavior behavior_;
  SpanSink sink_;
  // The last part, which is held back because the next match or range may be joined with it.
  std::optional<Span> held_;
  bool previous_matched_ = false;
};

}  // namespace incipit
