// Options of the commands that call a server, and functions for their gRPC calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/flags.h"

namespace incipit {

struct ClientOptions {
  std::string address = "127.0.0.1:50051";
  std::string tenant;  // tenant of each gRPC call; empty: the default tenant of the server
  Duration timeout = Duration::zero();  // timeout of each gRPC call; 0: no timeout
};

void BindClientFlags(Flags& flags, ClientOptions& options);

std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options);

// Adds the tenant, the deadline and the API key to `context`. The API key is the value of the
// environment variable INCIPIT_API_KEY. Adds no key if the value is empty, too long or contains
// characters that an API key cannot have. The timeout of the gRPC call starts now.
void PrepareCall(const ClientOptions& options, grpc::ClientContext& context);

// Returns the code and the message of the gRPC status `status`. Appends one line for each detail in
// the status, such as the name of an invalid field.
std::string DescribeError(const ClientOptions& options, const grpc::Status& status);

// Returns the canonical name of the gRPC status code `code`, for example INVALID_ARGUMENT.
std::string StatusCodeName(grpc::StatusCode code);

}  // namespace incipit
