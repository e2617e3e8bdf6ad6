#include "server/session/request/reason.h"

#include "base/check.h"

namespace incipit {

std::string_view NameOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidField:
      return "INVALID_FIELD";
    case Reason::kMalformedMessage:
      return "MALFORMED_MESSAGE";
    case Reason::kPromptTooLong:
      return "PROMPT_TOO_LONG";
    case Reason::kModelNotFound:
      return "MODEL_NOT_FOUND";
    case Reason::kNoTokenizer:
      return "NO_TOKENIZER";
    case Reason::kNoChatTemplate:
      return "NO_CHAT_TEMPLATE";
    case Reason::kTemplateRefused:
      return "TEMPLATE_REFUSED";
    case Reason::kTemplateUnsupported:
      return "TEMPLATE_UNSUPPORTED";
    case Reason::kQueueFull:
      return "QUEUE_FULL";
    case Reason::kQueueTooLong:
      return "QUEUE_TOO_LONG";
    case Reason::kTextQueueFull:
      return "TEXT_QUEUE_FULL";
    case Reason::kMetadataTooLarge:
      return "METADATA_TOO_LARGE";
    case Reason::kTooManyStreams:
      return "TOO_MANY_STREAMS";
    case Reason::kWriteStalled:
      return "WRITE_STALLED";
    case Reason::kDraining:
      return "DRAINING";
    case Reason::kDeadline:
      return "DEADLINE_EXCEEDED";
    case Reason::kCancelled:
      return "CANCELLED";
    case Reason::kEngineFailed:
    case Reason::kInternal:
      return "ENGINE_FAILED";
    case Reason::kInvalidApiKey:
      return "INVALID_API_KEY";
    case Reason::kBlocksInUse:
      return "BLOCKS_IN_USE";
    case Reason::kAdminNotLocal:
      return "ADMIN_NOT_LOCAL";
    case Reason::kCannotResume:
      return "CANNOT_RESUME";
  }
  INCIPIT_CHECK(false);
}

absl::StatusCode CodeOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidField:
    case Reason::kPromptTooLong:
    case Reason::kTemplateRefused:
      return absl::StatusCode::kInvalidArgument;
    case Reason::kModelNotFound:
      return absl::StatusCode::kNotFound;
    case Reason::kNoTokenizer:
    case Reason::kNoChatTemplate:
    case Reason::kBlocksInUse:
    case Reason::kCannotResume:
      return absl::StatusCode::kFailedPrecondition;
    case Reason::kTemplateUnsupported:
      return absl::StatusCode::kUnimplemented;
    case Reason::kQueueFull:
    case Reason::kQueueTooLong:
    case Reason::kTextQueueFull:
    case Reason::kMetadataTooLarge:
    case Reason::kTooManyStreams:
    case Reason::kWriteStalled:
      return absl::StatusCode::kResourceExhausted;
    case Reason::kDraining:
    case Reason::kEngineFailed:
      return absl::StatusCode::kUnavailable;
    case Reason::kDeadline:
      return absl::StatusCode::kDeadlineExceeded;
    case Reason::kCancelled:
      return absl::StatusCode::kCancelled;
    case Reason::kAdminNotLocal:
      return absl::StatusCode::kPermissionDenied;
    case Reason::kMalformedMessage:
    case Reason::kInternal:
      return absl::StatusCode::kInternal;
    case Reason::kInvalidApiKey:
      return absl::StatusCode::kUnauthenticated;
  }
  INCIPIT_CHECK(false);
}

Reason DefaultReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return Reason::kInvalidField;
    case absl::StatusCode::kDeadlineExceeded:
      return Reason::kDeadline;
    case absl::StatusCode::kCancelled:
      return Reason::kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return Reason::kQueueFull;
    case absl::StatusCode::kUnavailable:
      return Reason::kDraining;
    case absl::StatusCode::kUnauthenticated:
      return Reason::kInvalidApiKey;
    default:
      return Reason::kInternal;
  }
}

std::string_view NameOf(RejectionLabel label) {
  switch (label) {
    case RejectionLabel::kInvalidArgument:
      return "invalid_argument";
    case RejectionLabel::kPromptTooLong:
      return "prompt_too_long";
    case RejectionLabel::kNotFound:
      return "not_found";
    case RejectionLabel::kFailedPrecondition:
      return "failed_precondition";
    case RejectionLabel::kUnimplemented:
      return "unimplemented";
    case RejectionLabel::kQueueFull:
      return "queue_full";
    case RejectionLabel::kQueueTooLong:
      return "queue_too_long";
    case RejectionLabel::kTooManyStreams:
      return "too_many_streams";
    case RejectionLabel::kMetadataTooLarge:
      return "metadata_too_large";
    case RejectionLabel::kDeadlineExceeded:
      return "deadline_exceeded";
    case RejectionLabel::kDraining:
      return "draining";
    case RejectionLabel::kUnavailable:
      return "unavailable";
    case RejectionLabel::kInternal:
      return "internal";
    case RejectionLabel::kUnauthenticated:
      return "unauthenticated";
    case RejectionLabel::kOther:
      return "other";
  }
  INCIPIT_CHECK(false);
}

RejectionLabel LabelOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidField:
    case Reason::kMalformedMessage:
    case Reason::kTemplateRefused:
      return RejectionLabel::kInvalidArgument;
    case Reason::kPromptTooLong:
      return RejectionLabel::kPromptTooLong;
    case Reason::kModelNotFound:
      return RejectionLabel::kNotFound;
    case Reason::kNoTokenizer:
    case Reason::kNoChatTemplate:
      return RejectionLabel::kFailedPrecondition;
    case Reason::kTemplateUnsupported:
      return RejectionLabel::kUnimplemented;
    case Reason::kQueueFull:
    case Reason::kTextQueueFull:
      return RejectionLabel::kQueueFull;
    case Reason::kQueueTooLong:
      return RejectionLabel::kQueueTooLong;
    case Reason::kMetadataTooLarge:
      return RejectionLabel::kMetadataTooLarge;
    case Reason::kTooManyStreams:
      return RejectionLabel::kTooManyStreams;
    case Reason::kDraining:
      return RejectionLabel::kDraining;
    case Reason::kDeadline:
      return RejectionLabel::kDeadlineExceeded;
    case Reason::kEngineFailed:
      return RejectionLabel::kUnavailable;
    case Reason::kInternal:
      return RejectionLabel::kInternal;
    case Reason::kInvalidApiKey:
      return RejectionLabel::kUnauthenticated;
    case Reason::kWriteStalled:
    case Reason::kCancelled:
    case Reason::kBlocksInUse:
    case Reason::kAdminNotLocal:
    case Reason::kCannotResume:
      // These reasons never refuse a request for output. Only the Admin service uses the last
      // three.
      return RejectionLabel::kOther;
  }
  INCIPIT_CHECK(false);
}

}  // namespace incipit
