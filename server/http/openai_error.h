// Converts errors to responses in the form of OpenAI's API.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/http_message.h"
#include "server/session/reason.h"

namespace incipit {

// Returns the HTTP status code of an error with `reason`.
int HttpStatusOf(Reason reason);

// Returns the JSON object {"error": {...}} of `status`: message, type, param and code. `param` is
// the name of the field in OpenAI's API. REQUIRES: `status` is not OK.
std::string ErrorJson(const absl::Status& status);

// Returns the response for the error `status`. The response has a Retry-After field if the client
// may repeat the request later. REQUIRES: `status` is not OK.
HttpResponse ErrorResponse(const absl::Status& status);

// Returns the response for an error of HTTP itself, with the HTTP status code `http_status`.
HttpResponse ErrorResponse(int http_status, std::string_view message);

}  // namespace incipit
