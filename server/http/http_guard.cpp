#include "server/http/http_guard.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "server/http/openai_error.h"

namespace incipit {
namespace {

// Returns the host in the value `field` of the header field Host, without the port and in lower
// case. Returns an empty text if `field` does not have the form HOST or HOST:PORT.
std::string HostOf(std::string_view field) {
  const size_t bracket = field.starts_with('[') ? field.find(']') : 0;
  const size_t end = field.find(':', std::min(bracket, field.size()));
  const std::string_view port = end == std::string_view::npos ? "" : field.substr(end + 1);
  const std::string_view host = field.substr(0, end);
  const bool is_whole = bracket == 0 || bracket + 1 == host.size();
  const bool is_number = port.find_first_not_of("0123456789") == std::string_view::npos;
  return is_whole && is_number ? LowerCase(host) : "";
}

bool IsAllowedHost(std::string_view field, const HttpGuardOptions& options) {
  constexpr std::array<std::string_view, 3> kOwn = {"localhost", "127.0.0.1", "[::1]"};
  const std::string host = HostOf(field);
  return std::ranges::find(kOwn, host) != kOwn.end() ||
         std::ranges::any_of(options.hosts, [&](const std::string& allowed) {
           return EqualsIgnoringCase(allowed, host);
         });
}

bool IsAllowedOrigin(std::string_view origin, const HttpGuardOptions& options) {
  return std::ranges::find(options.origins, origin) != options.origins.end();
}

// Returns true if the header fields Origin (value `origin`) and Host (value `host`) of a request
// name the same host and port.
bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && EqualsIgnoringCase(origin.substr(scheme.size()), host)) {
      return true;
    }
  }
  return false;
}

bool IsJson(std::string_view content_type) {
  // The header field Content-Type may have parameters after the type, such as "; charset=utf-8".
  return EqualsIgnoringCase(content_type.substr(0, content_type.find_first_of("; \t")),
                            "application/json");
}

}  // namespace

std::optional<HttpResponse> CheckBrowser(const HttpRequestHead& head,
                                         const HttpGuardOptions& options) {
  const std::string_view host = head.Field("Host");
  if (options.is_loopback && !host.empty() && !IsAllowedHost(host, options)) {
    return ErrorResponse(421,
                         "the header field Host names another machine; the flag --http-hosts "
                         "allows further hosts");
  }
  const std::string_view origin = head.Field("Origin");
  const bool is_foreign =
      !origin.empty() && !IsOwnOrigin(origin, host) && !IsAllowedOrigin(origin, options);
  if (is_foreign || head.NumFields("Origin") > 1) {
    return ErrorResponse(403,
                         "the request is from a web page of another site; the flag "
                         "--http-origins allows further origins");
  }
  if (origin.empty() && EqualsIgnoringCase(head.Field("Sec-Fetch-Site"), "cross-site")) {
    return ErrorResponse(403, "the request is from a web page of another site");
  }
  if (head.method == "POST" && !IsJson(head.Field("Content-Type"))) {
    return ErrorResponse(415, "the header field Content-Type must be application/json");
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> CrossOriginFields(
    const HttpRequestHead& head, const HttpGuardOptions& options) {
  const std::string_view origin = head.Field("Origin");
  if (origin.empty() || !IsAllowedOrigin(origin, options)) return {};
  // The browser lists the header fields that the web page wants to send. The response allows all
  // these fields, because OpenAI's client library for web pages sends header fields of its own.
  const std::string_view asked = head.Field("Access-Control-Request-Headers");
  const bool is_plain = std::ranges::all_of(asked, [](char c) {
    return c == '-' || c == '_' || c == ',' || c == ' ' || (c >= '0' && c <= '9') ||
           (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  constexpr std::string_view kUsual = "Authorization, Content-Type, X-Request-Id, X-Tenant-Id";
  return {
      {"Access-Control-Allow-Origin", std::string(origin)},
      {"Access-Control-Allow-Methods", "GET, POST"},
      {"Access-Control-Allow-Headers", std::string(asked.empty() || !is_plain ? kUsual : asked)},
      {"Access-Control-Max-Age", "600"},
      {"Vary", "Origin"}};
}

}  // namespace incipit
