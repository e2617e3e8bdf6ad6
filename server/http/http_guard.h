// Refuses HTTP requests that a web page of another site may have caused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_message.h"

namespace incipit {

struct HttpGuardOptions {
  // True if only programs on the same machine can connect. The host in a request must then be this
  // machine, so that a web page cannot reach the server under a name of its own (DNS rebinding).
  bool is_loopback = true;
  std::vector<std::string> hosts;    // further allowed values of the Host field, without port
  std::vector<std::string> origins;  // further allowed values of the Origin field
};

// Returns the response to a request that must be refused: 421 for a wrong host, 403 for a request
// of a web page of another site, and 415 for a POST request whose body is not JSON. Otherwise
// returns nothing.
std::optional<HttpResponse> CheckBrowser(const HttpRequestHead& head,
                                         const HttpGuardOptions& options);

// Returns the header fields that allow a web page of an allowed origin to read the response. The
// list is empty for any other request.
std::vector<std::pair<std::string, std::string>> CrossOriginFields(const HttpRequestHead& head,
                                                                   const HttpGuardOptions& options);

}  // namespace incipit
