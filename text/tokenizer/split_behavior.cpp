#include "text/tokenizer/split_behavior.h"

#include "base/status.h"

namespace incipit {

absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonFields& fields, const char* name) {
  INCIPIT_ASSIGN_OR_RETURN(const auto text, fields.OptionalString(name));
  if (!text.has_value() || *text == "Isolated") return SplitBehavior::kIsolated;
  if (*text == "Removed") return SplitBehavior::kRemoved;
  if (*text == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (*text == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (*text == "Contiguous") return SplitBehavior::kContiguous;
  return Unimplemented("the field {} has the unsupported value {}", fields.PathOf(name), *text);
}

absl::Status SpanMerger::Add(const Span& span) {
  switch (behavior_) {
    case SplitBehavior::kIsolated:
      return sink_(span);
    case SplitBehavior::kRemoved:
      return span.is_match ? absl::OkStatus() : sink_(span);
    case SplitBehavior::kContiguous: {
      const bool extends = held_ && span.is_match == previous_matched_;
      previous_matched_ = span.is_match;
      if (!extends) return Replace(span);
      held_->end = span.end;
      return absl::OkStatus();
    }
    case SplitBehavior::kMergedWithPrevious: {
      const bool extends = held_ && span.is_match && !previous_matched_;
      previous_matched_ = span.is_match;
      if (!extends) return Replace(span);
      held_->end = span.end;
      return absl::OkStatus();
    }
    case SplitBehavior::kMergedWithNext: {
      if (!held_ || span.is_match) {
        if (span.is_match) return Replace(span);
        return sink_(span);
      }
      const Span merged{.begin = held_->begin, .end = span.end, .is_match = false};
      held_.reset();
      return sink_(merged);
    }
  }
  return absl::OkStatus();
}

absl::Status SpanMerger::Replace(const Span& span) {
  const std::optional<Span> done = held_;
  held_ = span;
  return done ? sink_(*done) : absl::OkStatus();
}

absl::Status SpanMerger::Finish() {
  const std::optional<Span> done = held_;
  held_.reset();
  return done ? sink_(*done) : absl::OkStatus();
}

}  // namespace incipit
