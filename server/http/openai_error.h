// Converts errors to HTTP responses with the error object of OpenAI's API.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/http_message.h"
#include "server/session/request/reason.h"

namespace incipit {

// Returns the HTTP status code of an error response for `reason`.
int HttpStatusOf(Reason reason);

// Returns the JSON text of OpenAI's error object {"error": {"message", "type", "param", "code"}}
// for `status`. REQUIRES: `status` is not OK.
std::string ErrorJson(const absl::Status& status);

// Returns the HTTP response for the error `status`. If the status code is 429 or 503, the response
// has the header field Retry-After (seconds until the client may repeat the request). REQUIRES:
// `status` is not OK.
HttpResponse ErrorResponse(const absl::Status& status);

// Returns the HTTP error response with the status code `http_status` and the error message
// `message`.
HttpResponse ErrorResponse(int http_status, std::string_view message);

}  // namespace incipit
