// The reasons for which the server refuses a request or ends a request early. Clients receive the
// reason in the error details, and a metric counts refused requests by reason.
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
  kEngineFailed,   // the engine has failed and accepts no requests
  kInternal,       // the model computed infinite or NaN values, or the server has a bug
  kInvalidApiKey,  // the server requires an API key, and the call has no valid key
  // kBlocksInUse, kAdminNotLocal and kCannotResume occur only in calls for administrators.
  kBlocksInUse,
  kAdminNotLocal,
  kCannotResume,
};

// Returns the name of `reason` in the error details that clients receive, in capital letters.
// kEngineFailed and kInternal have the same name, ENGINE_FAILED.
std::string_view NameOf(Reason reason);
// Returns the status code of errors with `reason`.
absl::StatusCode CodeOf(Reason reason);
// Returns the reason that clients receive for an error with the status code `code` if the error
// contains no RequestError.
Reason DefaultReason(absl::StatusCode code);

// Values of the label `reason` of the metric incipit_requests_rejected_total.
enum class RejectionLabel : uint8_t {
  kInvalidArgument,
  kPromptTooLong,
  kNotFound,
  kFailedPrecondition,
  kUnimplemented,
  kQueueFull,
  kQueueTooLong,
  kTooManyStreams,
  kMetadataTooLarge,
  kDeadlineExceeded,
  kDraining,
  kUnavailable,
  kInternal,
  kUnauthenticated,
  kOther,
};
inline constexpr size_t kNumRejectionLabels = static_cast<size_t>(RejectionLabel::kOther) + 1;

// Returns the name of `label`. The metric incipit_requests_rejected_total uses this name as the
// value of its label "reason".
std::string_view NameOf(RejectionLabel label);
// Returns the metric label for requests that are refused with `reason`.
RejectionLabel LabelOf(Reason reason);

}  // namespace incipit
