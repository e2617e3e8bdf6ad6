// The parts of an HTTP request and response that the routes need. Does not depend on the HTTP
// library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace incipit {

// The start line and the header fields of a request.
struct HttpRequestHead {
  std::string method = {};  // for example "GET"
  std::string target = {};  // path and query as the client sent them, for example "/v1/models?x=1"
  // Names and values of the header fields, in the order of the message.
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string peer = {};  // name of the connection, unique among the open connections

  // Returns the target without the query.
  std::string_view path() const;
  // Returns the value of the first header field `name`, or an empty text if no field has this name.
  // Upper and lower case are equal in `name`.
  std::string_view Field(std::string_view name) const;
  // Returns the number of header fields with the name `name`.
  size_t NumFields(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  // Further header fields, such as Retry-After.
  std::vector<std::pair<std::string, std::string>> fields = {};
  // True if the connection must be closed after the response, for example because the body of the
  // request was not read.
  bool closes = false;
};

// How the end of a response body is marked.
enum class HttpBody : uint8_t {
  kSized,    // a Content-Length field
  kChunked,  // chunked transfer coding
  kToClose,  // the end of the connection, for HTTP/1.0 clients
};

// Content type of metrics in the text format of Prometheus.
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Compare and change only ASCII letters.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
std::string LowerCase(std::string_view text);

// Returns `text` with each escape such as %2F replaced by its byte. Invalid escapes are kept.
std::string PercentDecoded(std::string_view text);

// Returns the status line and the header fields of `response`, with an empty line at the end. The
// size in Content-Length is the size of `response.body`.
std::string HeadOf(const HttpResponse& response, HttpBody body);

}  // namespace incipit
