// The reasons for which a request is refused or ended early. Checks, error details for clients and
// the metric incipit_requests_rejected_total use this list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace incipit {

enum class Reason : uint8_t {
  kInvalidField,
  kMalformedMessage,
  kPromptTooLong,
  kModelNotFound,
  kNoTokenizer,
  kNoChatTemplate,
  kTemplateRefused,
  kTemplateUnsupported,
  kQueueFull,
  kQueueTooLong,
  kTextQueueFull,
  kMetadataTooLarge,
  kTooManyStreams,
  kWriteStalled,
  kDraining,
  kDeadline,
  kCancelled,
  kEngineFailed,  // the engine has failed and accepts no request
  kInternal,      // the model computed values that are not finite, or the server has a bug
  // The following reasons occur in the Admin service only.
  kBlocksInUse,
  kAdminNotLocal,
  kCannotResume,
};

// Returns the name of the reason that clients see, in capital letters. kEngineFailed and kInternal
// share the name ENGINE_FAILED.
std::string_view NameOf(Reason reason);
// Returns the canonical code of an error with this reason.
absl::StatusCode CodeOf(Reason reason);
// Returns the reason for an error that has `code` and no RequestError.
Reason DefaultReason(absl::StatusCode code);

// The label `reason` of incipit_requests_rejected_total. docs/operations.md lists the labels.
enum class RejectionLabel : uint8_t {
  kInvalidArgument,
  kPromptTooLong,
  kNotFound,
  kFailedPrecondition,
  kUnimplemented,
  kQueueFull,
  kTooManyStreams,
  kMetadataTooLarge,
  kDeadlineExceeded,
  kDraining,
  kUnavailable,
  kInternal,
  kOther,
};
inline constexpr size_t kNumRejectionLabels = static_cast<size_t>(RejectionLabel::kOther) + 1;

// Returns the text of `label` in the metric.
std::string_view NameOf(RejectionLabel label);
// Returns the label that counts the rejections with `reason`.
RejectionLabel LabelOf(Reason reason);

}  // namespace incipit
