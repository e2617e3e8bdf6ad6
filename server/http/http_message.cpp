#include "server/http/http_message.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace incipit {
namespace {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

}  // namespace

std::string_view HttpRequestHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view HttpRequestHead::Field(std::string_view name) const {
  const auto found = std::ranges::find_if(
      fields, [&](const auto& field) { return EqualsIgnoringCase(field.first, name); });
  return found == fields.end() ? std::string_view() : found->second;
}

size_t HttpRequestHead::NumFields(std::string_view name) const {
  return static_cast<size_t>(std::ranges::count_if(
      fields, [&](const auto& field) { return EqualsIgnoringCase(field.first, name); }));
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, absl::ascii_tolower, absl::ascii_tolower);
}

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), absl::ascii_tolower);
  return out;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2]) &&
        absl::SimpleHexAtoi(std::string(text.substr(i + 1, 2)), &byte)) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string HeadOf(const HttpResponse& response, HttpBody body) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  if (!response.content_type.empty()) {
    out += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  if (body == HttpBody::kSized && response.status != 204) {
    out += fmt::format("Content-Length: {}\r\n", response.body.size());
  } else if (body == HttpBody::kChunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  for (const auto& [name, value] : response.fields) out += fmt::format("{}: {}\r\n", name, value);
  out += response.closes || body == HttpBody::kToClose ? "Connection: close\r\n\r\n"
                                                       : "Connection: keep-alive\r\n\r\n";
  return out;
}

}  // namespace incipit
