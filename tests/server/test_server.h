// A complete server in the process of the test, with a fake model whose steps the test can delay.
// Functions send requests and collect the output.
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

// Delays the steps of a GatedRunner while the gate is closed. The gate is open until the first
// Close.
class StepGate {
 public:
  // Makes later steps wait.
  void Close();
  // Allows the waiting step and all later steps to run.
  void Open();
  // Allows `num_steps` more steps to run while the gate is closed.
  void Allow(int32_t num_steps);
  // Makes the next step return `status`.
  void FailNext(absl::Status status);
  // Makes the values of row `row` in the next step not finite.
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

// A FakeRunner whose steps wait at a StepGate.
class GatedRunner final : public FakeRunner {
 public:
  GatedRunner(const FakeRunnerOptions& options, StepGate& gate)
      : FakeRunner(options), gate_(gate) {}
  absl::Status Launch(const Step& step) override;

 private:
  StepGate& gate_;
};

// Number of tokens in the vocabulary of MakeByteTokenizer. The ids in [0, 4) are <s>, </s>,
// <|user|> and <|assistant|>. The ids in [4, 260) are the 256 bytes.
inline constexpr int32_t kByteVocab = 260;
inline constexpr TokenId kByteBos = 0, kByteEos = 1, kByteUser = 2, kByteAssistant = 3,
                         kFirstByte = 4;
// Returns a tokenizer in which every byte is a token.
std::unique_ptr<Tokenizer> MakeByteTokenizer();
// Returns the token id of each byte of `text` in the vocabulary of MakeByteTokenizer.
std::vector<TokenId> BytesAsTokens(std::string_view text);

// Returns the default options without an HTTP server.
inline Options TestOptions() {
  Options options;
  options.http_address.is_on = false;
  return options;
}

struct TestServerConfig {
  Options options = TestOptions();
  int32_t num_blocks = 256, block_size = 16, max_model_len = 1024;
  int32_t step_tokens_max = 64;
  // Steps from which the model of step time learns before the first request.
  std::vector<MeasuredStep> measured_steps;
  bool has_tokenizer = true;
  // Chat templates for requests without tools and with tools. An empty text means that there is no
  // template. The templates can use the variables bos_token and eos_token.
  std::string chat_template, tool_chat_template;
  // Ids of end-of-sequence tokens. The fake model may sample every token id.
  std::vector<TokenId> eos_ids;
  HostPort address{"127.0.0.1", 0};  // address of the Inference service
  // Text of the file with API keys. If the text is empty, clients need no key. The functions of
  // TestServer send no key.
  std::string api_keys;
  std::vector<PrewarmPrompt> prewarm;  // prompts that are computed before the server is ready
  bool starts_closed = false;          // true: the gate is closed before the server starts
};

// Returns measured steps from which the model of step time learns that a prompt token takes
// `token_time`, and that the rest of a step takes no time.
std::vector<MeasuredStep> StepsOf(Duration token_time);

class TestServer {
 public:
  explicit TestServer(TestServerConfig config = {});
  ~TestServer();

  StepGate& gate() { return gate_; }
  Server& server() { return *server_; }
  // Opens the gate and destroys the server.
  void Stop();
  // Waits until the engine has failed and returns the error.
  absl::Status AwaitFatal();

  std::shared_ptr<grpc::Channel> channel() const { return channel_; }
  // Returns a channel with its own connection to the Inference service.
  std::shared_ptr<grpc::Channel> NewChannel(const grpc::ChannelArguments& arguments = {}) const;
  v1::Inference::Stub& inference() { return *inference_; }
  v1::Admin::Stub& admin() { return *admin_; }
  // Returns the response of Admin.GetLoad.
  v1::GetLoadResponse Load();
  // Returns the text of /metrics.
  std::string Scrape() const;
  // Returns the value of one sample of /metrics. `sample` is the metric name with its labels.
  double Metric(const std::string& sample) const;
  // Calls Load repeatedly until `done` returns true for the response.
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
// The whole response to a call of Generate or Chat.
struct Reply {
  grpc::Status status;
  size_t longest_message = 0;  // size of the largest message in bytes
  std::vector<ChoiceOutput> choices;
  std::vector<v1::PositionLogprobs> prompt_logprobs;
  v1::Usage usage;
  std::string request_id;
  int num_messages = 0, num_usages = 0;
  bool usage_is_last = false;
};

// Reads a stream to its end and returns the collected output.
Reply Collect(grpc::ClientReader<v1::GenerateResponse>& reader);
// Sends `request` with the tenant name `tenant` and returns the whole response.
Reply Ask(v1::Inference::Stub& stub, const v1::GenerateRequest& request,
          const std::string& tenant = "");

// Returns the name of the reason in the error details of `status`, or an empty text.
std::string ReasonOf(const grpc::Status& status);
// Returns the name of the invalid field in the error details of `status`, or an empty text.
std::string FieldOf(const grpc::Status& status);
// Returns the exceeded limit in the error details of `status`, or an empty text.
std::string BoundOf(const grpc::Status& status);
// Returns the retry delay in the error details of `status`, in seconds; -1 if absent.
double RetrySecondsOf(const grpc::Status& status);

// Returns a request for greedy sampling of `num_tokens` tokens after the token ids `prompt`.
v1::GenerateRequest Greedy(const std::vector<TokenId>& prompt, uint32_t num_tokens);
// Returns the output of the fake model for a request of Greedy.
std::vector<TokenId> Expected(std::vector<TokenId> prompt, int32_t num_tokens, int32_t choice = 0,
                              uint64_t seed = 0);

}  // namespace incipit
