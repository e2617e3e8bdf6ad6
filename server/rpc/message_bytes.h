// Messages as bytes. The services take raw bytes and parse them here, since gRPC answers a message
// that it cannot parse with UNIMPLEMENTED, which sends whoever reads it looking in the wrong place.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status.h"
#include "server/session/request_error.h"

namespace incipit {

// MALFORMED_MESSAGE if `bytes` are no `Message`.
template <typename Message>
absl::Status FromBytes(const grpc::ByteBuffer& bytes, Message& message) {
  grpc::ByteBuffer copy = bytes;  // a reference: reading consumes it
  if (grpc::SerializationTraits<Message>::Deserialize(&copy, &message).ok()) {
    return absl::OkStatus();
  }
  return Refuse(Reason::kMalformedMessage,
                fmt::format("the message cannot be parsed as {}: it is cut off, of another type, "
                            "or has text that is not UTF-8",
                            Message::descriptor()->full_name()));
}

template <typename Message>
void ToBytes(const Message& message, grpc::ByteBuffer& bytes) {
  bytes.Clear();  // Serialize wants it empty
  bool owned = false;
  INCIPIT_CHECK(grpc::SerializationTraits<Message>::Serialize(message, &bytes, &owned).ok());
}

}  // namespace incipit
