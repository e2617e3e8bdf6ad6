// Compares rendered templates with the output of Jinja2 for the same templates.
// tools/make_chat_goldens.py writes the files with the output of Jinja2.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/status.h"
#include "text/chat/chat_template.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

const std::string kGoldenFolder = INCIPIT_SOURCE_DIR "/tests/text/jinja/golden/";

std::string ReadFile(const std::string& name) {
  std::ifstream stream(kGoldenFolder + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

absl::StatusOr<RenderedPrompt> RenderWith(const std::string& source, const Json& variables) {
  INCIPIT_ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  return parsed.Render(variables);
}

// Compares `prompt` with the output of Jinja2 in `golden`: the rendered text, or the message of an
// error that the template raises. If Jinja2 ends with any other error, the message is empty.
void ExpectGolden(const Json& golden, const absl::StatusOr<RenderedPrompt>& prompt) {
  if (golden.contains("text")) {
    ASSERT_TRUE(prompt.ok()) << MessageOf(prompt.status());
    EXPECT_EQ(prompt->text, golden["text"].get<std::string>());
    return;
  }
  ASSERT_FALSE(prompt.ok()) << "rendered " << prompt->text;
  const std::string raised = golden["raises"].get<std::string>();
  if (raised.empty()) return;
  EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(prompt.status()), raised);
}

TEST(JinjaGoldenTest, EverySnippetRendersOrFailsAsInJinja2) {
  const Json golden = Json::parse(ReadFile("snippets.json"));
  ASSERT_GT(golden["cases"].size(), 150u);
  for (const Json& entry : golden["cases"]) {
    const std::string source = entry["template"].get<std::string>();
    SCOPED_TRACE(source);
    ExpectGolden(entry, RenderWith(source, golden["variables"]));
  }
}

TEST(JinjaGoldenTest, EveryConversationRendersOrFailsAsInJinja2) {
  const Json golden = Json::parse(ReadFile("conversations.json"));
  ASSERT_GT(golden.size(), 150u);
  for (size_t i = 0; i < golden.size(); ++i) {
    const std::string name = golden[i]["template"].get<std::string>();
    SCOPED_TRACE(name + " #" + std::to_string(i));
    ExpectGolden(golden[i], RenderWith(ReadFile(name), golden[i]["variables"]));
  }
}

}  // namespace
}  // namespace incipit
