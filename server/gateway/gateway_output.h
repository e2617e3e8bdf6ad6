// Converts the output of one request to the messages that a gateway reads.
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

// State that all gateway calls share. REQUIRES: the object outlives all calls.
struct GatewayCalls {
  AbortList aborts;
  // Estimated total size in bytes of the output that the server keeps for responses that are not
  // streams.
  std::atomic<int64_t> num_kept_bytes{0};
};

// The output of one Generate call of a gateway. In a stream, each choice (output) gets chunks with
// new tokens, and a complete message at its end. Otherwise, the complete messages of all choices
// are sent at the end of the request. Not thread-safe.
class GatewayOutput final : public ResponseFormat {
 public:
  // `kept_bytes_max` is the maximum of `calls.num_kept_bytes`. REQUIRES: `calls` outlives the
  // GatewayOutput.
  GatewayOutput(GatewayCalls& calls, int64_t kept_bytes_max)
      : calls_(calls), kept_bytes_max_(kept_bytes_max) {}
  ~GatewayOutput() override { Discard(); }

  // Sets the properties of the request, and makes the request abortable. Called before Write.
  void Begin(const GatewayRequest& request, const std::shared_ptr<Session>& session);

  absl::Status Write(OutputPart part, const std::string& label,
                     std::vector<grpc::ByteBuffer>& messages) override;
  grpc::Status StatusOf(const absl::Status& status) const override;

 private:
  using Complete = vllm::grpc::engine::GenerateComplete;

  void AppendChunk(OutputDelta& delta, std::vector<grpc::ByteBuffer>& messages) const;
  // Adds the tokens of `delta` to the output that is sent at the end.
  absl::Status Keep(const OutputDelta& delta);
  // Discards the output of Keep.
  void Discard();
  // Appends the complete messages of all choices. Does nothing if a choice has failed.
  void AppendAll(std::vector<grpc::ByteBuffer>& messages) const;
  // Appends the complete message of choice number `choice`.
  void AppendComplete(size_t choice, std::vector<grpc::ByteBuffer>& messages) const;

  GatewayCalls& calls_;
  const int64_t kept_bytes_max_;
  std::unique_ptr<AbortList::Entry> entry_;
  bool streams_ = false;
  PromptUsage prompt_;
  // Element i: the end of choice number i and, unless the response is a stream, its output so far.
  std::vector<Complete> choices_;
  int64_t num_kept_bytes_ = 0;  // part of this call in `calls_.num_kept_bytes`
};

}  // namespace incipit
