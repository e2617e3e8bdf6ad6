#include "server/rpc/call_key.h"

#include <grpc/grpc.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr std::string_view kKeyField = "authorization";
constexpr const char* kMessage =
    "the call needs the metadata entry authorization with the value Bearer KEY, where KEY is an "
    "API key of the server";
// Prefixes of the names of the methods for which the KeyInterceptor does not check the API key. The
// health service needs no key; the services Admin and Inference call CheckKey themselves.
constexpr std::array<std::string_view, 3> kUnguarded = {
    "/grpc.health.v1.Health/", "/incipit.v1.Admin/", "/incipit.v1.Inference/"};

class KeyInterceptor final : public grpc::experimental::Interceptor {
 public:
  KeyInterceptor(ServerRpcInfo& call, const ApiKeys& keys) : call_(call), keys_(keys) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
        !CheckKey(*call_.server_context(), keys_).ok()) {
      grpc_call_cancel_with_status(call_.server_context()->c_call(), GRPC_STATUS_UNAUTHENTICATED,
                                   kMessage, nullptr);
    }
    methods->Proceed();
  }

 private:
  ServerRpcInfo& call_;
  const ApiKeys& keys_;
};

class KeyInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit KeyInterceptorFactory(const ApiKeys& keys) : keys_(keys) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    const std::string_view method = call->method();
    const bool is_unguarded = std::ranges::any_of(
        kUnguarded, [&](std::string_view begin) { return method.starts_with(begin); });
    return is_unguarded ? nullptr : new KeyInterceptor(*call, keys_);
  }

 private:
  const ApiKeys& keys_;
};

}  // namespace

absl::Status CheckKey(const grpc::ServerContextBase& call, const ApiKeys& keys) {
  if (!keys.are_required()) return absl::OkStatus();
  const auto [begin, end] =
      call.client_metadata().equal_range(grpc::string_ref(kKeyField.data(), kKeyField.size()));
  if (begin != end && std::next(begin) == end &&
      keys.Accept({begin->second.data(), begin->second.size()})) {
    return absl::OkStatus();
  }
  return Refuse(Reason::kInvalidApiKey, kMessage);
}

void GuardOtherServices(const ApiKeys& keys, grpc::ServerBuilder& builder) {
  if (!keys.are_required()) return;
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<KeyInterceptorFactory>(keys));
  builder.experimental().SetInterceptorCreators(std::move(factories));
}

}  // namespace incipit
