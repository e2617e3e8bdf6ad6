#include "cli/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/status.h"
#include "cli/json_text.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Doubles numbers and refuses the rest.
absl::StatusOr<nlohmann::ordered_json> Double(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return InvalidArgument("no number");
  return nlohmann::ordered_json(2 * value.get<int>());
}

std::string Transformed(const std::string& input) {
  std::FILE* const in = std::tmpfile();
  std::fwrite(input.data(), 1, input.size(), in);
  std::rewind(in);
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const out = open_memstream(&text, &size);
  EXPECT_TRUE(TransformJsonLines(in, out, Double).ok());
  std::fclose(in);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(JsonLinesTest, EachLineHasItsReplyInItsPosition) {
  EXPECT_EQ(Transformed("1\n 2 \n\"x\"\n3"), "2\n4\n{\"error\":\"no number\"}\n6\n");
  EXPECT_EQ(Transformed(""), "");
}

TEST(JsonLinesTest, ALineThatIsNoJsonIsAnErrorOfThatLineAlone) {
  EXPECT_EQ(Transformed("[1\n5\n"), "{\"error\":\"not valid JSON: error at byte 3\"}\n10\n");
  EXPECT_THAT(Transformed("\n"), StartsWith("{\"error\":\"not valid JSON"));
  EXPECT_THAT(Transformed("\"\\ud800\"\n"), StartsWith("{\"error\":"));
  EXPECT_THAT(Transformed("\"\xff\"\n"), StartsWith("{\"error\":"));
  EXPECT_THAT(Transformed(std::string("1\0\n", 3)), StartsWith("{\"error\":"));
}

TEST(JsonLinesTest, DeepNestingIsRefusedWithItsBound) {
  EXPECT_THAT(Transformed(std::string(100'000, '[') + "\n"), HasSubstr("error"));
  const std::string deep = std::string(1000, '[') + std::string(1000, ']') + "\n";
  EXPECT_THAT(Transformed(deep), HasSubstr("deeper than 512"));
}

TEST(JsonTextTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(JsonLine("a\xff"), "\"a\xef\xbf\xbd\"\n");
}

}  // namespace
}  // namespace incipit
