// HTTP requests and responses as plain structures, independent of the HTTP library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace incipit {

// The start line and the header fields of a request.
struct HttpRequestHead {
  std::string method = {};  // HTTP method, for example "GET"
  // Path and query of the URL without decoding, for example "/v1/models?x=1".
  std::string target = {};
  // Names and values of the header fields, in the order in which the client sent the fields.
  std::vector<std::pair<std::string, std::string>> fields = {};
  // Name of the client's connection: the address and port of the client, as HOST:PORT.
  std::string peer = {};

  // Returns the target without the query.
  std::string_view path() const;
  // Returns the value of the first header field whose name is `name`, ignoring case. Returns an
  // empty text if the request has no such field.
  std::string_view Field(std::string_view name) const;
  // Returns the number of header fields whose name is `name`, ignoring case.
  size_t NumFields(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  // Further header fields, such as Retry-After.
  std::vector<std::pair<std::string, std::string>> fields = {};
  // True if the server must close the connection after it has sent the response.
  bool closes = false;
};

// The way in which a client detects the end of a response body.
enum class HttpBody : uint8_t {
  kSized,    // the header field Content-Length contains the size of the body
  kChunked,  // the body ends with the last chunk of the chunked transfer coding
  kToClose,  // the body ends when the server closes the connection (for HTTP/1.0 clients)
};

// Content type of metrics in the text format of Prometheus.
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Returns true if `a` and `b` are equal, ignoring the case of ASCII letters.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// Returns `text` with each ASCII capital letter replaced by the small letter.
std::string LowerCase(std::string_view text);

// Decodes the percent-encoding of URLs: returns `text` with each escape, such as %2F, replaced by
// the byte that the escape stands for. Leaves invalid escapes unchanged.
std::string PercentDecoded(std::string_view text);

// Returns the status line and the header fields of `response`, followed by an empty line. If `body`
// is HttpBody::kSized, the fields contain the size of `response.body`, except for status 204.
std::string HeadOf(const HttpResponse& response, HttpBody body);

}  // namespace incipit
