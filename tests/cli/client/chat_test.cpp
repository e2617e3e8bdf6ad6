#include "cli/client/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands.h"
#include "tests/cli/client/scripted_server.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChatTest : public ::testing::Test {
 protected:
  ChatTest() {
    server_.chat = [this](const v1::ChatRequest& request, ScriptedServer::Stream* stream) {
      std::string said;
      for (const auto& message : request.messages()) {
        said += message.role() + "=" + message.content() + ";";
      }
      conversations_.push_back(said);
      last_ = request;
      if (!status_.ok()) return status_;
      stream->Write(Piece("answer ", {1}));
      stream->Write(Piece(std::to_string(conversations_.size()), {2}));
      stream->Write(LastPiece(4, 2, 2));
      return grpc::Status::OK;
    };
  }

  int Run(std::vector<std::string_view> args, const std::string& input = "") {
    const std::string address = server_.address();
    args.push_back("--address");
    args.push_back(address);
    std::istringstream lines(input);
    std::streambuf* const before = std::cin.rdbuf(lines.rdbuf());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int exit_code = RunChat(args);
    std::cin.rdbuf(before);
    std::cin.clear();
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }

  ScriptedServer server_;
  grpc::Status status_;
  v1::ChatRequest last_;
  std::vector<std::string> conversations_;
  std::string out_, err_;
};

TEST_F(ChatTest, OneMessageHasItsReplyAndTheProgramEnds) {
  EXPECT_EQ(Run({"--message", "Hi", "--system", "Be brief.", "--temperature", "0",
                 "--template-arguments", "{\"a\": 1}"}),
            kExitOk);
  EXPECT_EQ(out_, "answer 1\n");
  EXPECT_THAT(conversations_, ElementsAre("system=Be brief.;user=Hi;"));
  EXPECT_EQ(last_.sampling().temperature(), 0);
  EXPECT_TRUE(last_.sampling().has_temperature());
  EXPECT_EQ(last_.template_arguments_json(), "{\"a\": 1}");
  EXPECT_FALSE(last_.has_add_generation_prompt());
}

TEST_F(ChatTest, OneMessageAsJsonIsOneObject) {
  EXPECT_EQ(Run({"--message", "Hi", "--json"}), kExitOk);
  EXPECT_EQ(nlohmann::json::parse(out_)["text"], "answer 1");
}

TEST_F(ChatTest, EachTurnSendsTheWholeConversation) {
  EXPECT_EQ(Run({"--system", "S"}, "one\ntwo\n"), kExitOk);
  EXPECT_EQ(out_, "answer 1\nanswer 2\n");
  EXPECT_THAT(conversations_,
              ElementsAre("system=S;user=one;", "system=S;user=one;assistant=answer 1;user=two;"));
}

TEST_F(ChatTest, CommandsChangeTheConversation) {
  EXPECT_EQ(
      Run({}, "one\n/retry\n/reset\ntwo\n/system Be brief.\nthree\n/system\nfour\n/quit\nfive"),
      kExitOk);
  EXPECT_THAT(conversations_, ElementsAre("user=one;", "user=one;", "user=two;",
                                          "system=Be brief.;user=three;", "user=four;"));
}

TEST_F(ChatTest, HistoryShowsWhatWasSaid) {
  EXPECT_EQ(Run({"--system", "S"}, "one\n/history\n"), kExitOk);
  EXPECT_THAT(out_, HasSubstr("system: S\nuser: one\nassistant: answer 1\n"));
}

TEST_F(ChatTest, ALineThatEndsWithABackslashGoesOn) {
  EXPECT_EQ(Run({}, "one\\\ntwo\n\n"), kExitOk);
  EXPECT_THAT(conversations_, ElementsAre("user=one\ntwo;"));
}

TEST_F(ChatTest, ARefusalEndsAScriptAndIsExplained) {
  status_ = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the model has no chat template");
  EXPECT_EQ(Run({}, "one\ntwo\n"), kExitFailure);
  EXPECT_EQ(conversations_.size(), 1u);
  EXPECT_THAT(err_, HasSubstr("FAILED_PRECONDITION: the model has no chat template"));
}

TEST_F(ChatTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(Run({"--json"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--json needs --message"));
  EXPECT_EQ(Run({"--n", "2"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--n is 2"));
  EXPECT_EQ(Run({"--mesage", "x"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("did you mean --message?"));
}

}  // namespace
}  // namespace incipit
