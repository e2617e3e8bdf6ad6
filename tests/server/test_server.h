// A whole server in the test's process, over a fake model whose steps the test may hold, with a
// client that collects answers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "incipit/v1/admin.grpc.pb.h"
#include "incipit/v1/inference.grpc.pb.h"
#include "server/options.h"
#include "server/server.h"
#include "tests/support/fake_runner.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// Lets steps through, or not. Open until the first Close.
class StepGate {
 public:
  void Close();
  void Open();                    // for all that come
  void Allow(int32_t num_steps);  // through the closed gate
  void FailNext(absl::Status status);
  void PoisonNext(int32_t row);
  // Returns when a step waits at the closed gate.
  void AwaitWaiting();

 private:
  friend class GatedRunner;
  struct Order {
    absl::Status status;
    int32_t poison_row = -1;
  };
  Order Pass();

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t num_allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  Order next_ ABSL_GUARDED_BY(mutex_);
};

class GatedRunner final : public FakeRunner {
 public:
  GatedRunner(const FakeRunnerOptions& options, StepGate& gate)
      : FakeRunner(options), gate_(gate) {}
  absl::Status Launch(const Step& step) override;

 private:
  StepGate& gate_;
};

// Every byte is a token, ids 4 to 259; before them <s>, </s>, <|user|> and <|assistant|>.
inline constexpr int32_t kByteVocab = 260;
inline constexpr TokenId kByteBos = 0, kByteEos = 1, kByteUser = 2, kByteAssistant = 3,
                         kFirstByte = 4;
std::unique_ptr<Tokenizer> MakeByteTokenizer();
std::vector<TokenId> BytesAsTokens(std::string_view text);

struct TestServerConfig {
  Options options;
  int32_t num_blocks = 256, block_size = 16, max_model_len = 1024;
  int32_t step_tokens_max = 64;
  bool has_tokenizer = true;
  std::string chat_template, tool_chat_template;  // which know bos_token and eos_token
  std::vector<TokenId> eos_ids;                   // the fake model draws every token
  HostPort address{"127.0.0.1", 0};               // of Inference
};

class TestServer {
 public:
  explicit TestServer(TestServerConfig config = {});
  ~TestServer();

  StepGate& gate() { return gate_; }
  Server& server() { return *server_; }
  void Stop();  // as at the end of the process
  absl::Status AwaitFatal();

  std::shared_ptr<grpc::Channel> channel() const { return channel_; }
  std::shared_ptr<grpc::Channel> NewChannel(const grpc::ChannelArguments& arguments = {}) const;
  v1::Inference::Stub& inference() { return *inference_; }
  v1::Admin::Stub& admin() { return *admin_; }
  v1::GetLoadResponse Load();
  // What /metrics says of one sample, which is named with its labels.
  double Metric(const std::string& sample) const;
  // Asks for the load until `done` accepts it.
  void AwaitLoad(const std::function<bool(const v1::GetLoadResponse&)>& done);

 private:
  StepGate gate_;
  Mutex mutex_;
  std::condition_variable_any failed_;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

struct ChoiceOutput {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<v1::PositionLogprobs> logprobs;
  v1::FinishReason finish = v1::FINISH_REASON_UNSPECIFIED;
  std::string stop_string;
  int64_t stop_token = -1;
};
struct Reply {
  grpc::Status status;
  size_t longest_message = 0;  // bytes
  std::vector<ChoiceOutput> choices;
  std::vector<v1::PositionLogprobs> prompt_logprobs;
  v1::Usage usage;
  std::string request_id;
  int num_messages = 0, num_usages = 0;
  bool usage_is_last = false;
};

// Reads a stream to its end.
Reply Collect(grpc::ClientReader<v1::GenerateResponse>& reader);
Reply Ask(v1::Inference::Stub& stub, const v1::GenerateRequest& request,
          const std::string& tenant = "");

// Of the details of a status.
std::string ReasonOf(const grpc::Status& status);
std::string FieldOf(const grpc::Status& status);
double RetrySecondsOf(const grpc::Status& status);  // -1: none

// Greedy, of `num_tokens` tokens, with token ids as its prompt.
v1::GenerateRequest Greedy(const std::vector<TokenId>& prompt, uint32_t num_tokens);
// What the fake model answers to it.
std::vector<TokenId> Expected(std::vector<TokenId> prompt, int32_t num_tokens, int32_t choice = 0,
                              uint64_t seed = 0);

}  // namespace incipit
