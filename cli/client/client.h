// The client's end of a connection: where the server is, who asks, how long to wait, and what an
// error says.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/flags.h"

namespace incipit {

struct ClientOptions {
  std::string address = "127.0.0.1:50051";
  std::string tenant;                   // empty: the server's default
  Duration timeout = Duration::zero();  // of one call; 0: none
};

void BindClientFlags(Flags& flags, ClientOptions& options);

std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options);

// Puts tenant and deadline into the context of a call that starts now.
void PrepareCall(const ClientOptions& options, grpc::ClientContext& context);

// Code, message and, where the server sent them, the fields that are wrong and when to try again;
// one line each.
std::string DescribeError(const ClientOptions& options, const grpc::Status& status);

// The canonical name, such as INVALID_ARGUMENT.
std::string StatusCodeName(grpc::StatusCode code);

}  // namespace incipit
