#include "server/rpc/prompt_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <incipit/v1/inference.pb.h>

namespace incipit {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr int kFieldsMax = 64;
// The most that one id takes on the wire: a tag, if ids are not packed, and a varint.
constexpr int64_t kIdBytesMax = 11;

}  // namespace

PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy = bytes;  // a reference: reading consumes it
  grpc::ProtoBufferReader reader(&copy);
  google::protobuf::io::CodedInputStream stream(&reader);
  int64_t text_bytes = 0, id_bytes = 0;
  for (int i = 0; i < kFieldsMax; ++i) {
    const uint32_t tag = stream.ReadTag();
    if (tag == 0) return {.text_bytes = text_bytes, .num_ids_min = id_bytes / kIdBytesMax};
    const auto type = WireFormatLite::GetTagWireType(tag);
    // Skipping a group visits every field in it.
    if (type == WireFormatLite::WIRETYPE_START_GROUP) return {};
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&stream, tag)) return {};
      continue;
    }
    uint32_t length = 0;
    if (!stream.ReadVarint32(&length) || length > bytes.Length()) return {};
    // Of the fields of a oneof the last one counts; ids that come in parts are put together.
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == v1::GenerateRequest::kTextFieldNumber) {
      text_bytes = length;
      id_bytes = 0;
    } else if (field == v1::GenerateRequest::kTokenIdsFieldNumber) {
      text_bytes = 0;
      id_bytes += length;
    }
    if (!stream.Skip(static_cast<int>(length))) return {};
  }
  return {};
}

}  // namespace incipit
