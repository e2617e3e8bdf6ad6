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
constexpr int64_t kVarintBytesMax = 10;

constexpr uint32_t BytesTag(int field) {
  return static_cast<uint32_t>(field) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}
constexpr uint32_t kTextTag = BytesTag(v1::GenerateRequest::kTextFieldNumber);
constexpr uint32_t kTokenIdsTag = BytesTag(v1::GenerateRequest::kTokenIdsFieldNumber);
constexpr uint32_t kIdsTag = BytesTag(v1::TokenIds::kIdsFieldNumber);

// Reads the tags and lengths of a serialized GenerateRequest. Reading consumes only `copy_`, which
// shares its data with the buffer of the caller.
class Outline {
 public:
  explicit Outline(const grpc::ByteBuffer& bytes)
      : num_bytes_(bytes.Length()), copy_(bytes), reader_(&copy_), stream_(&reader_) {}

  // Sets `size` to the size of the prompt. Returns false if the message has more than kFieldsMax
  // fields, or if a tag or a length is malformed.
  bool Read(PromptSize& size) {
    int64_t id_bytes = 0;
    while (const uint32_t tag = stream_.ReadTag()) {
      uint32_t length = 0;
      if (!Enter(tag, length)) return false;
      // `text` and `token_ids` belong to one oneof, so a later field replaces an earlier field of
      // the other kind. protobuf merges several `token_ids` fields, so ReadIds adds the sizes of
      // all ids.
      if (tag == kTextTag) {
        size.text_bytes = length;
        id_bytes = 0;
      } else if (tag == kTokenIdsTag) {
        size.text_bytes = 0;
        if (!ReadIds(length, id_bytes)) return false;
        continue;
      }
      if (!stream_.Skip(static_cast<int>(length))) return false;
    }
    size.num_ids_min = id_bytes / kVarintBytesMax;
    return stream_.ConsumedEntireMessage();
  }

 private:
  // Advances to the contents of the field with `tag`, and sets `length` to the size of the contents
  // in bytes. If the field is not length-delimited, skips the whole field and leaves `length`
  // unchanged. Returns false if the field is malformed or not supported.
  bool Enter(uint32_t tag, uint32_t& length) {
    if (++num_fields_ > kFieldsMax) return false;
    const auto type = WireFormatLite::GetTagWireType(tag);
    // Refuses groups, because skipping a group would visit every field in the group.
    if (type == WireFormatLite::WIRETYPE_START_GROUP) return false;
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&stream_, tag);
    }
    return stream_.ReadVarint32(&length) && length <= num_bytes_;
  }

  // Reads a TokenIds message of `length` bytes and adds the size of its packed ids, in bytes, to
  // `id_bytes`. Returns false if the message is malformed.
  bool ReadIds(uint32_t length, int64_t& id_bytes) {
    const auto limit = stream_.PushLimit(static_cast<int>(length));
    while (const uint32_t tag = stream_.ReadTag()) {
      uint32_t inner = 0;
      if (!Enter(tag, inner) || !stream_.Skip(static_cast<int>(inner))) return false;
      if (tag == kIdsTag) id_bytes += inner;
    }
    const bool is_whole = stream_.ConsumedEntireMessage();
    stream_.PopLimit(limit);
    return is_whole;
  }

  const size_t num_bytes_;
  grpc::ByteBuffer copy_;
  grpc::ProtoBufferReader reader_;
  google::protobuf::io::CodedInputStream stream_;
  int num_fields_ = 0;
};

}  // namespace

PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes) {
  PromptSize size;
  return Outline(bytes).Read(size) ? size : PromptSize();
}

}  // namespace incipit
