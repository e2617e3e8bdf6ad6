// Asks the server of a load test for its model and for the counters of its prefix cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/client.h"
#include "incipit/v1/admin.grpc.pb.h"
#include "incipit/v1/inference.grpc.pb.h"

namespace incipit {

// Returns OK if `status` is OK. Otherwise returns UNAVAILABLE with a description of the error.
absl::Status ToStatus(const ClientOptions& client, const grpc::Status& status);

// Calls the services Inference and Admin of the server.
class BenchServer {
 public:
  // If `admin_address` is empty, the Admin service has the address `client.address`.
  BenchServer(const ClientOptions& client, const std::string& admin_address);

  v1::Inference::Stub& inference() { return *inference_; }

  absl::StatusOr<v1::GetModelInfoResponse> GetModelInfo();

  // Returns the load of the server, with the counters of its prefix cache. Returns nullopt if the
  // server does not report its load or block size.
  std::optional<v1::GetLoadResponse> GetLoad();

  // Returns the ids of all tokens of the server's model, without special tokens such as the
  // end-of-sequence token.
  absl::StatusOr<std::vector<uint32_t>> PromptTokens(const v1::GetModelInfoResponse& info);

 private:
  absl::StatusOr<std::string> Detokenize(const v1::DetokenizeRequest& request);

  const ClientOptions client_;
  ClientOptions admin_client_;  // as `client_`, with the address of the Admin service
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace incipit
