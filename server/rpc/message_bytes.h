// Parses and serializes the messages of the gRPC services. gRPC does not parse the messages,
// because gRPC would return the misleading code UNIMPLEMENTED if the parsing fails.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status.h"
#include "server/session/request/request_error.h"

namespace incipit {

// Parses `bytes` to `message`. Returns MALFORMED_MESSAGE if `bytes` is not a serialized `Message`.
template <typename Message>
absl::Status FromBytes(const grpc::ByteBuffer& bytes, Message& message) {
  // Deserialize clears the buffer that it reads, so FromBytes passes a copy. The copy shares the
  // data of `bytes`.
  grpc::ByteBuffer copy = bytes;
  if (grpc::SerializationTraits<Message>::Deserialize(&copy, &message).ok()) {
    return absl::OkStatus();
  }
  return Refuse(Reason::kMalformedMessage,
                fmt::format("the message cannot be parsed as {}: the message is incomplete, has "
                            "another type, or has text that is not UTF-8",
                            Message::descriptor()->full_name()));
}

// Serializes `message` to `bytes`.
template <typename Message>
void ToBytes(const Message& message, grpc::ByteBuffer& bytes) {
  bytes.Clear();  // grpc::SerializationTraits::Serialize requires an empty buffer
  bool owned = false;
  INCIPIT_CHECK(grpc::SerializationTraits<Message>::Serialize(message, &bytes, &owned).ok());
}

}  // namespace incipit
