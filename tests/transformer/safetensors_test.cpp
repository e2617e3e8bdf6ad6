#include "transformer/safetensors.h"

#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transformer/safetensors_builder.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

void ExpectInvalidFile(const std::string& file, const testing::Matcher<std::string>& message) {
  const auto tensors = ParseSafetensors(BytesOf(file));
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << tensors.status();
  EXPECT_THAT(MessageOf(tensors.status()), message);
}

// Expects an error for a file with one tensor, whose JSON fields are `fields`. The file has
// `num_bytes` bytes of data.
void ExpectInvalidTensor(std::string_view fields, size_t num_bytes,
                         const testing::Matcher<std::string>& message) {
  ExpectInvalidFile(
      SafetensorsFile(fmt::format(R"({{"w":{{{}}}}})", fields), std::string(num_bytes, 'x')),
      AllOf(HasSubstr("\"w\""), message));
}

TEST(SafetensorsTest, GivesNamesShapesAndBytesInPlace) {
  const std::string file =
      SafetensorsFile(R"({"__metadata__":{"format":"pt"},)"
                      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
                      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                      R"("s":{"dtype":"I64","shape":[],"data_offsets":[14,22]}}   )",
                      "0123456789abcdefghijkl");
  const auto tensors = ParseSafetensors(BytesOf(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3U);
  const StoredTensor& a = tensors->at("a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(1, 2));
  EXPECT_EQ(a.bytes.size(), 8U);
  EXPECT_EQ(static_cast<const void*>(a.bytes.data()), file.data() + file.size() - 22);
  EXPECT_EQ(tensors->at("b").dtype, DType::kBF16);
  EXPECT_EQ(static_cast<char>(tensors->at("b").bytes[0]), '8');
  EXPECT_EQ(tensors->at("s").dtype, std::nullopt);
  EXPECT_EQ(tensors->at("s").dtype_name, "I64");
}

TEST(SafetensorsTest, AFileWithoutTensorsIsValid) {
  EXPECT_TRUE(ParseSafetensors(BytesOf(SafetensorsFile("{}", ""))).ok());
}

TEST(SafetensorsTest, HeaderLengthsThatLieAreRefused) {
  ExpectInvalidFile("", HasSubstr("0 bytes"));
  ExpectInvalidFile("1234567", HasSubstr("7 bytes"));
  ExpectInvalidFile(std::string(8, '\0'), HasSubstr("does not start with '{'"));
  ExpectInvalidFile(std::string(8, '\xff') + "{}", HasSubstr("18446744073709551615 bytes"));
  std::string longer = SafetensorsFile("{}", "");
  longer[0] = 3;
  ExpectInvalidFile(longer, AllOf(HasSubstr("3 bytes"), HasSubstr("only 2 bytes")));
  std::string huge = SafetensorsFile("{}", "");
  huge[3] = 6;  // a header of 6 * 2^24 bytes is larger than 100 MB
  ExpectInvalidFile(huge, HasSubstr("at most 100000000"));
}

TEST(SafetensorsTest, HeadersThatAreNotWhatTheFormatSaysAreRefused) {
  ExpectInvalidFile(SafetensorsFile("[]", ""), HasSubstr("does not start"));
  ExpectInvalidFile(SafetensorsFile(" {}", ""), HasSubstr("does not start"));
  ExpectInvalidFile(SafetensorsFile("{", ""), HasSubstr("not valid JSON"));
  ExpectInvalidFile(SafetensorsFile("{}x", ""), HasSubstr("not valid JSON"));
  ExpectInvalidFile(SafetensorsFile("{\"\xff\":1}", ""), HasSubstr("not valid JSON"));
  ExpectInvalidFile(SafetensorsFile("{\"w\":" + std::string(10'000, '['), ""), HasSubstr("deeper"));
  ExpectInvalidFile(SafetensorsFile(R"({"w":7})", ""), HasSubstr("not an object"));
  ExpectInvalidFile(SafetensorsFile(R"({"__metadata__":{"a":1}})", ""), HasSubstr("__metadata__"));
  ExpectInvalidFile(SafetensorsFile(R"({"__metadata__":[]})", ""), HasSubstr("__metadata__"));
}

TEST(SafetensorsTest, NamesAndKeysThatStandTwiceAreRefused) {
  const std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  ExpectInvalidFile(SafetensorsFile("{" + entry + "," + entry + "}", "1234"),
                    HasSubstr("\"w\" occurs twice"));
  ExpectInvalidFile(
      SafetensorsFile(R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
                      "1234"),
      HasSubstr("\"shape\" occurs twice"));
}

TEST(SafetensorsTest, FieldsThatAreMissingOrOfAnotherTypeAreRefused) {
  ExpectInvalidTensor(R"("shape":[1],"data_offsets":[0,4])", 4, HasSubstr("dtype"));
  ExpectInvalidTensor(R"("dtype":7,"shape":[1],"data_offsets":[0,4])", 4, HasSubstr("dtype"));
  ExpectInvalidTensor(R"("dtype":"Q4","shape":[1],"data_offsets":[0,4])", 4,
                      HasSubstr("dtype is \"Q4\""));
  ExpectInvalidTensor(R"("dtype":"F32","data_offsets":[0,4])", 4, HasSubstr("shape"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":4,"data_offsets":[0,4])", 4, HasSubstr("shape"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4,
                      HasSubstr("shape is [1.0]"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4,
                      HasSubstr("shape is [-1]"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])", 4,
                      HasSubstr("shape is"));
  for (const std::string_view offsets :
       {"[0]", "[0,4,8]", "[-4,0]", "[0,4.0]", "[0,\"4\"]", "{}", "4", "null"}) {
    ExpectInvalidTensor(fmt::format(R"("dtype":"F32","shape":[1],"data_offsets":{})", offsets), 4,
                        HasSubstr("data_offsets"));
  }
}

TEST(SafetensorsTest, OffsetsOutsideTheFileAreRefused) {
  ExpectInvalidTensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4,
                      HasSubstr("data_offsets is [4, 0]"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4,
                      HasSubstr("data_offsets is [0, 8]"));
  ExpectInvalidTensor(
      R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])", 4,
      HasSubstr("data_offsets"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4, HasSubstr("8 bytes"));
}

TEST(SafetensorsTest, ShapesWhoseSizeOverflowsAreRefused) {
  ExpectInvalidTensor(
      R"("dtype":"F32","shape":[4194305,4194305,211106198978564],"data_offsets":[0,4])", 4,
      HasSubstr("does not fit 64 bits"));
  ExpectInvalidTensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2,
                      HasSubstr("whole number of bytes"));
}

TEST(SafetensorsTest, EmptyTensorsAreRefused) {
  ExpectInvalidTensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])", 0,
                      HasSubstr("empty tensor"));
  ExpectInvalidTensor(R"("dtype":"F32","shape":[2,0,3],"data_offsets":[0,0])", 0,
                      HasSubstr("[2, 0, 3]"));
}

TEST(SafetensorsTest, DataThatTensorsDoNotCoverExactlyIsRefused) {
  const auto two = [](std::string_view first, std::string_view second, size_t num_bytes) {
    return SafetensorsFile(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}},)"
                                       R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}}}})",
                                       first, second),
                           std::string(num_bytes, 'x'));
  };
  EXPECT_TRUE(ParseSafetensors(BytesOf(two("4,8", "0,4", 8))).ok());
  ExpectInvalidFile(two("0,4", "3,7", 7), AllOf(HasSubstr("\"b\""), HasSubstr("begins at byte 3")));
  ExpectInvalidFile(two("0,4", "0,4", 4), HasSubstr("begins at byte 0"));
  ExpectInvalidFile(two("0,4", "5,9", 9), HasSubstr("begins at byte 5"));
  ExpectInvalidFile(two("1,5", "5,9", 9), HasSubstr("begins at byte 1"));
  ExpectInvalidFile(two("0,4", "4,8", 9), HasSubstr("1 bytes after the last tensor"));
  ExpectInvalidFile(SafetensorsFile("{}", "x"), HasSubstr("1 bytes after"));
}

}  // namespace
}  // namespace incipit
