#include "server/rpc/prompt_size.h"

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <incipit/v1/inference.pb.h>

#include <string>

namespace incipit {
namespace {

PromptSize SizeOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return PromptSizeOf(grpc::ByteBuffer(&slice, 1));
}

std::string Text(size_t num_bytes) {
  v1::GenerateRequest request;
  request.set_text(std::string(num_bytes, 'x'));
  return request.SerializeAsString();
}

TEST(PromptSizeTest, TheLastTextCounts) {
  EXPECT_EQ(SizeOf(Text(500)).text_bytes, 500);
  EXPECT_EQ(SizeOf(Text(500) + Text(7)).text_bytes, 7);
  EXPECT_EQ(SizeOf("").text_bytes, 0);
}

// A group of two million fields would be walked on gRPC's thread.
TEST(PromptSizeTest, AGroupIsNotWalked) {
  const std::string group = "\xfb\x7f" + std::string("\x08\x01") + "\xfc\x7f";
  EXPECT_EQ(SizeOf(Text(500) + group).text_bytes, 0);
  EXPECT_EQ(SizeOf(group + Text(500)).text_bytes, 0);
}

}  // namespace
}  // namespace incipit
