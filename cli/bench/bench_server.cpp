#include "cli/bench/bench_server.h"

#include <utility>

#include "base/status.h"
#include "cli/bench/bench_prompts.h"

namespace incipit {

absl::Status ToStatus(const ClientOptions& client, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return Unavailable("{}", DescribeError(client, status));
}

BenchServer::BenchServer(const ClientOptions& client, const std::string& admin_address)
    : client_(client), admin_client_(client) {
  if (!admin_address.empty()) admin_client_.address = admin_address;
  inference_ = v1::Inference::NewStub(OpenChannel(client_));
  admin_ = v1::Admin::NewStub(OpenChannel(admin_client_));
}

absl::StatusOr<v1::GetModelInfoResponse> BenchServer::GetModelInfo() {
  grpc::ClientContext context;
  PrepareCall(admin_client_, context);
  v1::GetModelInfoResponse info;
  const grpc::Status status = admin_->GetModelInfo(&context, v1::GetModelInfoRequest(), &info);
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Unavailable(
        "there is no Admin service at {}; set --admin-address to the address of that service",
        admin_client_.address);
  }
  INCIPIT_RETURN_IF_ERROR(ToStatus(admin_client_, status));
  return info;
}

std::optional<v1::GetLoadResponse> BenchServer::GetLoad() {
  grpc::ClientContext context;
  PrepareCall(admin_client_, context);
  v1::GetLoadResponse load;
  const grpc::Status status = admin_->GetLoad(&context, v1::GetLoadRequest(), &load);
  if (!status.ok() || load.block_size() == 0) return std::nullopt;
  return load;
}

absl::StatusOr<std::string> BenchServer::Detokenize(const v1::DetokenizeRequest& request) {
  grpc::ClientContext context;
  PrepareCall(client_, context);
  v1::DetokenizeResponse response;
  INCIPIT_RETURN_IF_ERROR(ToStatus(client_, inference_->Detokenize(&context, request, &response)));
  return response.text();
}

absl::StatusOr<std::vector<uint32_t>> BenchServer::PromptTokens(
    const v1::GetModelInfoResponse& info) {
  const auto has_special = [&](uint32_t begin, uint32_t end) -> absl::StatusOr<bool> {
    for (const uint32_t id : info.eos_token_ids()) {
      if (begin <= id && id < end) return true;
    }
    if (!info.has_tokenizer()) return false;
    v1::DetokenizeRequest request;
    for (uint32_t id = begin; id < end; ++id) request.add_ids(id);
    INCIPIT_ASSIGN_OR_RETURN(const std::string whole, Detokenize(request));
    request.set_skip_special_tokens(true);
    INCIPIT_ASSIGN_OR_RETURN(const std::string skipped, Detokenize(request));
    return whole != skipped;
  };
  INCIPIT_ASSIGN_OR_RETURN(auto tokens, OrdinaryTokens(info.vocab_size(), has_special));
  if (tokens.empty()) return FailedPrecondition("every token of the model is a special token");
  return tokens;
}

}  // namespace incipit
