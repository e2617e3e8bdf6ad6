#include "server/rpc/prompt_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

namespace incipit {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr int kFieldsMax = 64;
constexpr int64_t kVarintBytesMax = 10;

constexpr uint32_t BytesTag(int field) {
  return static_cast<uint32_t>(field) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

// Reads only the tags and lengths of the fields in a serialized protobuf message, and skips the
// contents of the fields.
class Outline {
 public:
  Outline(const grpc::ByteBuffer& bytes, const PromptFields& fields)
      : text_tag_(BytesTag(fields.text)),
        token_ids_tag_(BytesTag(fields.token_ids)),
        ids_tag_(BytesTag(fields.ids)),
        num_bytes_(bytes.Length()),
        copy_(bytes),
        reader_(&copy_),
        stream_(&reader_) {}

  // Sets `size` to the size of the prompt in the message. Returns false if the message has more
  // than kFieldsMax fields, or if a tag or length is invalid.
  bool Read(PromptSize& size) {
    int64_t id_bytes = 0;
    while (const uint32_t tag = stream_.ReadTag()) {
      uint32_t length = 0;
      if (!Enter(tag, length)) return false;
      // If a message has several prompt fields, the size follows protobuf's rules. A later prompt
      // field replaces an earlier prompt field, but the ids of consecutive `token_ids` fields are
      // joined.
      if (tag == text_tag_) {
        size.text_bytes = length;
        id_bytes = 0;
      } else if (tag == token_ids_tag_) {
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
  // Reads the length of the field with the tag `tag` to `length`. If the field has no length
  // (another type than LENGTH_DELIMITED), skips the field and does not change `length`. Returns
  // false if the field is invalid or is a group, or if there are too many fields.
  bool Enter(uint32_t tag, uint32_t& length) {
    if (++num_fields_ > kFieldsMax) return false;
    const auto type = WireFormatLite::GetTagWireType(tag);
    // Refuses a group (an old protobuf type), because a group has no length by which it can be
    // skipped.
    if (type == WireFormatLite::WIRETYPE_START_GROUP) return false;
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&stream_, tag);
    }
    return stream_.ReadVarint32(&length) && length <= num_bytes_;
  }

  // Reads a message of `length` bytes that contains token ids. Adds the number of bytes of its
  // packed ids to `id_bytes`. Returns false if the message is invalid.
  bool ReadIds(uint32_t length, int64_t& id_bytes) {
    const auto limit = stream_.PushLimit(static_cast<int>(length));
    while (const uint32_t tag = stream_.ReadTag()) {
      uint32_t inner = 0;
      if (!Enter(tag, inner) || !stream_.Skip(static_cast<int>(inner))) return false;
      if (tag == ids_tag_) id_bytes += inner;
    }
    const bool is_whole = stream_.ConsumedEntireMessage();
    stream_.PopLimit(limit);
    return is_whole;
  }

  const uint32_t text_tag_, token_ids_tag_, ids_tag_;
  const size_t num_bytes_;
  grpc::ByteBuffer copy_;
  grpc::ProtoBufferReader reader_;
  google::protobuf::io::CodedInputStream stream_;
  int num_fields_ = 0;
};

}  // namespace

PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes, const PromptFields& fields) {
  PromptSize size;
  return Outline(bytes, fields).Read(size) ? size : PromptSize();
}

}  // namespace incipit
