// Connects client commands to a server: address, tenant, deadline and the text of errors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/flags.h"

namespace incipit {

struct ClientOptions {
  std::string address = "127.0.0.1:50051";
  std::string tenant;                   // empty: the default tenant of the server
  Duration timeout = Duration::zero();  // deadline of each call; 0: no deadline
};

void BindClientFlags(Flags& flags, ClientOptions& options);

std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options);

// Sets the tenant and the deadline of a call in `context`. The deadline is `options.timeout` from
// now.
void PrepareCall(const ClientOptions& options, grpc::ClientContext& context);

// Returns the code and the message of `status` as text. If the server also sent wrong fields or a
// retry delay, each of them follows on its own line.
std::string DescribeError(const ClientOptions& options, const grpc::Status& status);

// Returns the canonical name of `code`, such as INVALID_ARGUMENT.
std::string StatusCodeName(grpc::StatusCode code);

}  // namespace incipit
