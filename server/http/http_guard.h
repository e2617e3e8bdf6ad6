// Refuses HTTP requests that a web page of another site has sent from the browser of its reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_message.h"

namespace incipit {

struct HttpGuardOptions {
  // True if the server listens at a loopback address. The Host field of a request must then name
  // the local machine or one of `hosts`. This check prevents DNS rebinding (a foreign domain name
  // that resolves to the loopback address).
  bool is_loopback = true;
  std::vector<std::string> hosts;    // further allowed values of the Host field, without port
  std::vector<std::string> origins;  // further allowed values of the Origin field
};

// Returns an error response if the request `head` must be refused, otherwise nullopt. The status is
// 421 for a wrong host, 403 for a request from a web page of another site, and 415 for a POST
// request without a JSON body.
std::optional<HttpResponse> CheckBrowser(const HttpRequestHead& head,
                                         const HttpGuardOptions& options);

// Returns the CORS header fields that let a web page of an allowed origin read the response.
// Returns an empty list for all other requests.
std::vector<std::pair<std::string, std::string>> CrossOriginFields(const HttpRequestHead& head,
                                                                   const HttpGuardOptions& options);

}  // namespace incipit
