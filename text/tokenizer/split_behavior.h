// What becomes of the parts of a text that a pattern matched, and of those between them.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "text/regex/regex.h"

namespace incipit {

// With "-" as the pattern, `the-final--countdown` becomes:
enum class SplitBehavior : uint8_t {
  kRemoved,             // the, final, countdown
  kIsolated,            // the, -, final, -, -, countdown
  kMergedWithPrevious,  // the-, final-, -, countdown
  kMergedWithNext,      // the, -final, -, -countdown
  kContiguous,          // the, -, final, --, countdown
};

// Reads the field of that name; kIsolated where it is missing.
absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonFields& fields, const char* name);

// Takes the spans of one text in order, and passes on the parts it is split into.
class SpanMerger {
 public:
  SpanMerger(SplitBehavior behavior, SpanSink sink) : behavior_(behavior), sink_(sink) {}

  absl::Status Add(const Span& span);
  absl::Status Finish();

 private:
  absl::Status Replace(const Span& span);

  SplitBehavior behavior_;
  SpanSink sink_;
  std::optional<Span> held_;  // the last part, as long as the next span may be merged with it
  bool previous_matched_ = false;
};

}  // namespace incipit
