// Errors as clients see them: a canonical code, a message, and google.rpc details that programs can
// read. Without this file every call site would build trailers by hand.
//
// The details ride on the absl::Status as payloads, so that code without gRPC can attach them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"

namespace grpc {
class Status;
}

namespace incipit {

// ErrorInfo::reason, and (in lower case) the label of the metric of rejected requests.
namespace reason {
inline constexpr std::string_view kInvalidField = "INVALID_FIELD";
inline constexpr std::string_view kMalformedMessage = "MALFORMED_MESSAGE";
inline constexpr std::string_view kPromptTooLong = "PROMPT_TOO_LONG";
inline constexpr std::string_view kModelNotFound = "MODEL_NOT_FOUND";
inline constexpr std::string_view kNoTokenizer = "NO_TOKENIZER";
inline constexpr std::string_view kNoChatTemplate = "NO_CHAT_TEMPLATE";
inline constexpr std::string_view kTemplateRefused = "TEMPLATE_REFUSED";
inline constexpr std::string_view kTemplateUnsupported = "TEMPLATE_UNSUPPORTED";
inline constexpr std::string_view kQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kQueueTooLong = "QUEUE_TOO_LONG";
inline constexpr std::string_view kTextQueueFull = "TEXT_QUEUE_FULL";
inline constexpr std::string_view kMetadataTooLarge = "METADATA_TOO_LARGE";
inline constexpr std::string_view kTooManyStreams = "TOO_MANY_STREAMS";
inline constexpr std::string_view kWriteStalled = "WRITE_STALLED";
inline constexpr std::string_view kDraining = "DRAINING";
inline constexpr std::string_view kDeadline = "DEADLINE_EXCEEDED";
inline constexpr std::string_view kCancelled = "CANCELLED";
inline constexpr std::string_view kEngineFailed = "ENGINE_FAILED";
inline constexpr std::string_view kBlocksInUse = "BLOCKS_IN_USE";
inline constexpr std::string_view kAdminNotLocal = "ADMIN_NOT_LOCAL";
inline constexpr std::string_view kCannotResume = "CANNOT_RESUME";
}  // namespace reason

// INVALID_ARGUMENT whose BadRequest names `field` (a path such as "sampling.top_p" or "stop[3]")
// and whose message is "<field> <description>". The description never contains what the client
// sent, except numbers.
absl::Status FieldViolation(std::string_view field, std::string_view description,
                            std::string_view reason = reason::kInvalidField);

template <typename... Args>
absl::Status InvalidField(std::string_view field, fmt::format_string<Args...> format,
                          Args&&... args) {
  return FieldViolation(field, fmt::format(format, std::forward<Args>(args)...));
}

// The same status with ErrorInfo::reason; with RetryInfo.
absl::Status WithReason(absl::Status status, std::string_view reason);
absl::Status WithRetryDelay(absl::Status status, Duration delay);

// What WithReason attached, or else one that follows from the code.
std::string ReasonOf(const absl::Status& status);

// With every detail in `grpc-status-details-bin`, and ErrorInfo always there. Long messages are cut
// to what trailers can carry.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace incipit
