#include "cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RenderTest : public CommandTest {
 protected:
  std::vector<std::string> Rendered(const std::string& source, const std::string& input) {
    WriteFile("template.jinja", source);
    const std::string path = folder() + "/template.jinja";
    EXPECT_EQ(Run(&RunRender, {"--template", path}, input), kExitOk) << err();
    return OutLines();
  }
};

TEST_F(RenderTest, TheTemplateSeesTheKeysOfTheLineAndNothingElse) {
  EXPECT_THAT(
      Rendered(
          "{{ bos_token }}{{ messages[0].content }}{{ add_generation_prompt }}{{ tools is none "
          "}}{{ documents is defined }}{{ mood }}",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"bos_token\": \"<s>\", "
          "\"tools\": null, \"mood\": \"good\"}\n"
          "{\"messages\": [{\"role\": \"user\", \"content\": \"Ho\"}], "
          "\"add_generation_prompt\": true, \"tools\": [1]}\n"),
      ElementsAre("\"<s>HiTrueFalsegood\"", "\"HoTrueFalseFalse\""));
}

TEST_F(RenderTest, ABadLineOrARefusalIsAnErrorOfThatLineAlone) {
  EXPECT_THAT(Rendered("{% if not messages %}{{ raise_exception('say something') }}{% endif %}ok",
                       "7\n{}\n{\"messages\": {}}\n{\"messages\": []}\n{\"messages\": [1]}\n"),
              ElementsAre(HasSubstr("with an array under the key messages"),
                          HasSubstr("with an array under the key messages"),
                          HasSubstr("with an array under the key messages"),
                          HasSubstr("say something"), "\"ok\""));
}

TEST_F(RenderTest, ATemplateThatCannotBeReadOrParsedIsNamed) {
  EXPECT_EQ(Run(&RunRender, {"--template", "/nonexistent"}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("/nonexistent"));
  EXPECT_EQ(Run(&RunRender, {"--template", folder()}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr(folder()));
  WriteFile("broken.jinja", "{% if %}");
  EXPECT_EQ(Run(&RunRender, {"--template", folder() + "/broken.jinja"}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("broken.jinja"));
  EXPECT_EQ(Run(&RunRender, {}, ""), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("one of --tokenizer and --template"));
}

TEST_F(RenderTest, AFoldersConfigurationGivesTemplateAndTokens) {
  WriteFile("tokenizer.json", kTinyTokenizerJson);
  WriteFile("tokenizer_config.json",
            "{\"bos_token\": \"<s>\", \"chat_template\": \"{{ bos_token }}{{ messages[0] }}\"}");
  EXPECT_EQ(Run(&RunRender, {"--tokenizer", folder()},
                "{\"messages\": [\"a\"]}\n{\"messages\": [\"a\"], \"bos_token\": \"!\"}\n"),
            kExitOk)
      << err();
  EXPECT_THAT(OutLines(), ElementsAre("\"<s>a\"", "\"!a\""));
}

TEST_F(RenderTest, WithAFolderWhatIsAbsentIsNone) {
  WriteFile("tokenizer.json", kTinyTokenizerJson);
  WriteFile("tokenizer_config.json",
            "{\"chat_template\": \"{{ tools is none }}{{ documents is none }}{{ "
            "add_generation_prompt }}{{ bos_token is defined }}\"}");
  EXPECT_EQ(Run(&RunRender, {"--tokenizer", folder()},
                "{\"messages\": []}\n{\"messages\": [], \"tools\": [], "
                "\"add_generation_prompt\": true}\n"),
            kExitOk)
      << err();
  EXPECT_THAT(OutLines(), ElementsAre("\"TrueTrueFalseFalse\"", "\"FalseTrueTrueFalse\""));
}

// tools/make_folder_goldens.py wrote them.
TEST_F(RenderTest, FoldersRenderAsWithTransformers) {
  std::ifstream file(INCIPIT_SOURCE_DIR "/tests/cli/analysis/golden/folders.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 40u);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    std::filesystem::remove_all(folder());
    std::filesystem::create_directories(folder() + "/additional_chat_templates");
    WriteFile("tokenizer.json", kTinyTokenizerJson);
    for (const auto& [name, text] : cases[i].at("files").items()) {
      WriteFile(name, text.get<std::string>());
    }
    const int exit_code =
        Run(&RunRender, {"--tokenizer", folder()}, cases[i].at("line").dump() + "\n");
    if (!cases[i].at("text").is_null()) {
      EXPECT_THAT(OutLines(), ElementsAre(cases[i].at("text").dump()));
    } else if (exit_code == kExitOk) {  // only this input line has an error
      EXPECT_THAT(OutLines(), ElementsAre(HasSubstr("\"error\"")));
    } else {
      EXPECT_THAT(err(), HasSubstr("no chat template"));
    }
  }
}

TEST_F(RenderTest, AFolderWithoutATemplateIsNamed) {
  WriteFile("tokenizer.json", kTinyTokenizerJson);
  EXPECT_EQ(Run(&RunRender, {"--tokenizer", folder()}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace incipit
