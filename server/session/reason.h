// Why a request was refused or ended early: one list from the check that found the reason to the
// client's error and to the label of incipit_requests_rejected_total.
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
  kEngineFailed,  // the engine has failed and takes no request
  kInternal,      // this request's values were not finite, or a fault of ours
  // Of the Admin service.
  kBlocksInUse,
  kAdminNotLocal,
  kCannotResume,
};

// Returns the name of the reason that clients see, in capital letters. kEngineFailed and kInternal
// share the name ENGINE_FAILED.
std::string_view NameOf(Reason reason);
// Returns the canonical code of an error with this reason.
absl::StatusCode CodeOf(Reason reason);
// The reason of a status that carries none: it follows from the code.
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

std::string_view NameOf(RejectionLabel label);
RejectionLabel LabelOf(Reason reason);

}  // namespace incipit
