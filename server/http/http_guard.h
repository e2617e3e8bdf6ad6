// Refuses HTTP requests that a browser sends for a web page of another site (cross-site requests).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_message.h"

namespace incipit {

struct HttpGuardOptions {
  // True if the server listens at a loopback address. The header field Host of a request must then
  // name the local machine or a host in `hosts`. This check prevents DNS rebinding (a foreign
  // domain name that resolves to the loopback address).
  bool is_loopback = true;
  // Host names, besides those of the local machine, that the header field Host may contain.
  std::vector<std::string> hosts;
  // Origins of other sites whose web pages may send requests, such as "https://example.com".
  std::vector<std::string> origins;
};

// Returns an error response if the request `head` must be refused, otherwise nullopt. The HTTP
// status is 421 for a wrong host. The status is 403 for a request from a web page of another site.
// The status is 415 for a POST request whose Content-Type is not JSON.
std::optional<HttpResponse> CheckBrowser(const HttpRequestHead& head,
                                         const HttpGuardOptions& options);

// Returns the CORS header fields for the response to the request `head`. The fields let a web page
// of an origin in `options.origins` read the response. Returns an empty list if the request has no
// such origin.
std::vector<std::pair<std::string, std::string>> CrossOriginFields(const HttpRequestHead& head,
                                                                   const HttpGuardOptions& options);

}  // namespace incipit
