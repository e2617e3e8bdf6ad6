// Converts the output of one request to the gRPC messages of a gateway's protocol.
#pragma once

#include <vllm/grpc/engine/vllm_engine.pb.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/gateway/abort_list.h"
#include "server/gateway/gateway_request.h"
#include "server/rpc/response_format.h"

namespace incipit {

// State that all calls of a gateway share. REQUIRES: the GatewayCalls outlives these calls.
struct GatewayCalls {
  // Estimated number of bytes of output that all HTTP and gateway calls together keep in memory.
  // Each call keeps its part until the response of the call is complete.
  std::atomic<int64_t>& num_kept_bytes;
  AbortList aborts;
};

// Converts the output of one Generate call of a gateway to messages. In a stream, each choice
// (output) gets chunks with new tokens, and a complete message at the end of the choice. Without a
// stream, the complete messages of all choices are sent at the end of the request. Not thread-safe.
class GatewayOutput final : public ResponseFormat {
 public:
  // `kept_bytes_max` is the maximum of `calls.num_kept_bytes`, the number of bytes that all calls
  // store. If new output would exceed the maximum, the call that stores this output fails.
  // REQUIRES: `calls` outlives the GatewayOutput.
  GatewayOutput(GatewayCalls& calls, int64_t kept_bytes_max)
      : calls_(calls), kept_bytes_max_(kept_bytes_max) {}
  ~GatewayOutput() override { Discard(); }

  // Reads from `request` whether the output is a stream, and lets the gateway abort `session` by
  // the request's name. Must be called before Write.
  void Begin(const GatewayRequest& request, const std::shared_ptr<Session>& session);

  absl::Status Write(OutputPart part, const std::string& label,
                     std::vector<grpc::ByteBuffer>& messages) override;
  grpc::Status StatusOf(const absl::Status& status) const override;

 private:
  using Complete = vllm::grpc::engine::GenerateComplete;

  void AppendChunk(OutputDelta& delta, std::vector<grpc::ByteBuffer>& messages) const;
  // Adds the new tokens in `delta` to `choices_`; called only if the response is not a stream.
  // Returns an error if `calls_.num_kept_bytes` is then larger than `kept_bytes_max_`.
  absl::Status Keep(const OutputDelta& delta);
  // Discards the output that Keep has added to `choices_`.
  void Discard();
  // Appends the complete message of each choice (output) to `messages`. Appends nothing if a choice
  // has failed.
  void AppendAll(std::vector<grpc::ByteBuffer>& messages) const;
  // Appends the complete message of the choice (output) number `choice` to `messages`.
  void AppendComplete(size_t choice, std::vector<grpc::ByteBuffer>& messages) const;

  GatewayCalls& calls_;
  const int64_t kept_bytes_max_;
  std::unique_ptr<AbortList::Entry> entry_;
  bool streams_ = false;
  PromptUsage prompt_;
  // Element i: the complete message of the choice (output) number i, as far as the output is known.
  // In a stream, the message contains no tokens.
  std::vector<Complete> choices_;
  int64_t num_kept_bytes_ = 0;  // bytes that this call adds to `calls_.num_kept_bytes`
};

}  // namespace incipit
