// The calls that clients make: checked on gRPC's threads, turned into tokens on the text threads,
// and then the engine's and the dispatcher's business. Nothing here waits.
#pragma once

#include <incipit/v1/inference.grpc.pb.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/rpc/generate_stream.h"
#include "server/session/call_tracker.h"
#include "server/session/checked_request.h"
#include "server/session/text_pool.h"
#include "server/session/token_dispatcher.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// What calls are answered with; everything outlives the service.
struct InferenceContext {
  const Options& options;
  const ServedModel& model;
  const Tokenizer* tokenizer;         // may be null
  const ChatTemplate* chat_template;  // may be null
  Engine& engine;
  TokenDispatcher& dispatcher;
  TextPool& text_pool;
  CallTracker& calls;
  Metrics& metrics;
  const Clock& clock;
};

// Takes and gives bytes: see server/rpc/wire.h.
using RawInferenceService = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Chat<v1::Inference::WithRawCallbackMethod_Tokenize<
        v1::Inference::WithRawCallbackMethod_Detokenize<v1::Inference::Service>>>>;

class InferenceService final : public RawInferenceService {
 public:
  explicit InferenceService(const InferenceContext& context);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Chat(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* bytes) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* bytes,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* response) override;

 private:
  // A request between gRPC's thread and the engine.
  struct Job {
    std::shared_ptr<GenerateStream> stream;
    CheckedRequest checked;
    std::string tenant;
    Time arrival{}, deadline{};
  };

  struct CallEnd {
    const GenerateStream& stream;
    Time arrival{}, deadline{};
  };

  template <typename Check>
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext& call,
                                                    const grpc::ByteBuffer& bytes, Check check);
  // Runs `work`, a function of the parsed message that fills the response, on a text thread.
  template <typename Message, typename Response>
  grpc::ServerUnaryReactor* RunText(grpc::CallbackServerContext& call,
                                    const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                    absl::Status (InferenceService::*work)(const Message&,
                                                                           Response&) const);
  absl::Status TokenizeText(const v1::TokenizeRequest& message,
                            v1::TokenizeResponse& response) const;
  absl::Status DetokenizeIds(const v1::DetokenizeRequest& message,
                             v1::DetokenizeResponse& response) const;
  // Counts the call against the limits on concurrent ones.
  absl::Status Track(const grpc::CallbackServerContext& call, GenerateStream& stream);
  absl::Status CheckMetadata(const grpc::CallbackServerContext& call) const;
  absl::StatusOr<std::string> Admit(const grpc::CallbackServerContext& call);
  // Of an engine that takes nothing more.
  absl::Status Gone(absl::Status status, const EngineLoad& load) const;
  Time DeadlineOf(const grpc::CallbackServerContext& call, Time arrival) const;

  // On a text thread.
  void Prepare(Job job);
  absl::Status EncodePrompt(CheckedRequest& checked) const;
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  bool add_special_tokens) const;
  absl::StatusOr<std::vector<TokenId>> EncodeConversation(const Conversation& conversation) const;
  bool ShowsText(std::span<const TokenId> prompt) const;
  // Whether those that wait do so for others to end, rather than for the next step.
  bool IsQueueHeldUp(const EngineLoad& load) const;
  // That the queue is likely to be shorter than the time that is left.
  absl::Status CheckDeadline(const Job& job) const;
  absl::Status Submit(Job& job);

  // How a call that the engine did not get ended, counted: with this status, unless its client had
  // cancelled it before.
  void CountUntaken(const CallEnd& end, const absl::Status& status) const;
  // The same status as clients see it, counted.
  absl::Status Rejected(absl::Status status) const;
  absl::Status Busy(std::string_view what, int32_t limit, std::string_view reason) const;
  absl::Status TextQueueFull() const;
  uint64_t Draw();

  const InferenceContext context_;
  const uint64_t random_key_;  // of the request ids and seeds that clients leave to the server
  std::atomic<uint64_t> num_drawn_{0};
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace incipit
