#include "server/rpc/prompt_size.h"

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <incipit/v1/inference.pb.h>

#include <string>

namespace incipit {
namespace {

PromptSize SizeOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return PromptSizeOf(grpc::ByteBuffer(&slice, 1),
                      {.text = v1::GenerateRequest::kTextFieldNumber,
                       .token_ids = v1::GenerateRequest::kTokenIdsFieldNumber,
                       .ids = v1::TokenIds::kIdsFieldNumber});
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

std::string Ids(int num_ids, const std::string& unknown = "") {
  v1::GenerateRequest request;
  for (int i = 0; i < num_ids; ++i) request.mutable_token_ids()->add_ids(0xFFFFFFFF);
  v1::TokenIds& ids = *request.mutable_token_ids();
  EXPECT_TRUE(ids.MergeFromString(unknown));
  return request.SerializeAsString();
}

TEST(PromptSizeTest, IdsAreCountedByTheBytesOfTheirVarints) {
  EXPECT_EQ(SizeOf(Ids(100)).num_ids_min, 50);
  EXPECT_EQ(SizeOf(Ids(100) + Ids(60)).num_ids_min, 80) << "they are put together";
  EXPECT_EQ(SizeOf(Ids(100) + Text(5)).num_ids_min, 0);
  EXPECT_EQ(SizeOf(Text(5) + Ids(100)).text_bytes, 0);
  EXPECT_EQ(SizeOf(Text(5) + Ids(0)).text_bytes, 0) << "a TokenIds without a byte";
}

TEST(PromptSizeTest, FieldsInTokenIdsThatAreNoIdsDoNotCount) {
  const std::string unknown = "\xfa\x7f\xe8\x07" + std::string(1000, 'x');
  EXPECT_EQ(SizeOf(Ids(100, unknown)).num_ids_min, 50);
  EXPECT_EQ(SizeOf(Ids(0, unknown)).num_ids_min, 0);
}

TEST(PromptSizeTest, WhatIsMalformedTellsNothing) {
  const std::string ids = Ids(100);
  EXPECT_EQ(SizeOf(ids.substr(0, ids.size() - 1)).num_ids_min, 0);
  EXPECT_EQ(SizeOf("\x1a\x03\x0a\x05\x01" + Text(5)).text_bytes, 0) << "ids beyond their message";
  EXPECT_EQ(SizeOf(Text(5) + std::string(2, '\0')).text_bytes, 0) << "a tag of 0";
}

// PromptSizeOf does not parse groups, because parsing a group of two million fields would block
// gRPC's thread.
TEST(PromptSizeTest, AGroupIsNotWalked) {
  const std::string group = "\xfb\x7f" + std::string("\x08\x01") + "\xfc\x7f";
  EXPECT_EQ(SizeOf(Text(500) + group).text_bytes, 0);
  EXPECT_EQ(SizeOf(group + Text(500)).text_bytes, 0);
}

}  // namespace
}  // namespace incipit
