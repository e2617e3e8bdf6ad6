#include "server/http/openai_error.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "server/http/append_json.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Pairs (A, B) that convert the path of a field in a RequestDraft (the server's form of a request)
// to the path in OpenAI's API: a leading A is replaced by B. For example, "sampling.top_p" becomes
// "top_p". The first pair that matches applies.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPaths = {{
    {"sampling.", ""},
    {"output.prompt_logprobs", "logprobs"},
    {"output.", ""},
    {"cache.salt", "cache_salt"},
    {"token_ids.ids", "prompt"},
    {"token_ids", "prompt"},
    {"template_arguments_json", "chat_template_kwargs"},
}};
// Pairs (A, B) that convert the path of a field in a RequestDraft (the server's form of a request)
// to the path in OpenAI's API: A at the end of the path is replaced by B.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPathEnds = {{
    {".arguments_json", ".function.arguments"},
    {".parameters_json", ".function.parameters"},
}};

// Converts `path`, the path of a field in RequestDraft (the server's form of a request), to the
// path of the same field in OpenAI's API.
std::string ParamOf(std::string_view path) {
  if (path == "text") return "prompt";
  for (const auto& [ours, theirs] : kPaths) {
    if (path.starts_with(ours)) return fmt::format("{}{}", theirs, path.substr(ours.size()));
  }
  for (const auto& [ours, theirs] : kPathEnds) {
    if (!path.ends_with(ours)) continue;
    return fmt::format("{}{}", path.substr(0, path.size() - ours.size()), theirs);
  }
  // In OpenAI's API, the name of a tool or of a tool call is in the object "function". For example,
  // "tools[3].name" becomes "tools[3].function.name".
  constexpr std::string_view kName = ".name";
  const bool is_tool = path.starts_with("tools[") || path.find(".tool_calls[") != path.npos;
  if (is_tool && path.ends_with(kName)) {
    return fmt::format("{}.function.name", path.substr(0, path.size() - kName.size()));
  }
  return std::string(path);
}

// Returns the value of the field "type" in OpenAI's error object for an error with the HTTP status
// code `http_status`.
std::string_view TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

// Appends `text` as a JSON string, or null if `text` is empty.
void AppendJsonOrNull(std::string_view text, std::string& out) {
  if (text.empty()) {
    out += "null";
  } else {
    AppendJson(text, out);
  }
}

std::string ErrorText(int http_status, std::string_view message, std::string_view param,
                      std::string_view code) {
  std::string out = R"({"error":{"message":)";
  AppendJson(message, out);
  out += R"(,"type":)";
  AppendJson(TypeOf(http_status), out);
  out += R"(,"param":)";
  AppendJsonOrNull(param, out);
  out += R"(,"code":)";
  AppendJsonOrNull(code, out);
  return out + "}}";
}

// Returns an error response with the JSON text `body`. If the status code is 429 or 503, the
// response has the header field Retry-After with the value `retry_delay`, in seconds rounded up.
HttpResponse ResponseOf(int http_status, std::string body,
                        Duration retry_delay = std::chrono::seconds(1)) {
  HttpResponse out{.status = http_status, .body = std::move(body)};
  if (out.status == 401) out.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (out.status == 429 || out.status == 503) {
    const double seconds = std::max(1.0, std::ceil(ToSeconds(retry_delay)));
    out.fields.emplace_back("Retry-After", fmt::format("{:.0f}", seconds));
  }
  return out;
}

std::string CodeOf(const RequestError& error) {
  if (error.reason == Reason::kPromptTooLong) return "context_length_exceeded";
  return LowerCase(NameOf(error.reason));
}

}  // namespace

int HttpStatusOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidField:
    case Reason::kMalformedMessage:
    case Reason::kPromptTooLong:
    case Reason::kNoTokenizer:
    case Reason::kNoChatTemplate:
    case Reason::kTemplateRefused:
    case Reason::kTemplateUnsupported:
      return 400;
    case Reason::kInvalidApiKey:
      return 401;
    case Reason::kAdminNotLocal:
      return 403;
    case Reason::kModelNotFound:
      return 404;
    case Reason::kDeadline:
    case Reason::kCancelled:
      return 408;
    case Reason::kBlocksInUse:
    case Reason::kCannotResume:
      return 409;
    case Reason::kQueueFull:
    case Reason::kQueueTooLong:
    case Reason::kTextQueueFull:
    case Reason::kTooManyStreams:
      return 429;
    case Reason::kMetadataTooLarge:
      return 431;
    case Reason::kWriteStalled:
    case Reason::kDraining:
    case Reason::kEngineFailed:
      return 503;
    case Reason::kInternal:
      return 500;
  }
  INCIPIT_CHECK(false);
}

std::string ErrorJson(const absl::Status& status) {
  const RequestError error = ErrorOf(WithField(status, ParamOf(ErrorOf(status).field)));
  return ErrorText(HttpStatusOf(error.reason), error.message, error.field, CodeOf(error));
}

HttpResponse ErrorResponse(const absl::Status& status) {
  const RequestError error = ErrorOf(status);
  HttpResponse out = ResponseOf(HttpStatusOf(error.reason), ErrorJson(status),
                                error.retry_delay.value_or(std::chrono::seconds(1)));
  // OpenAI's client libraries repeat requests that failed with status 408, 500 or 503, unless the
  // header field X-Should-Retry forbids the repetition.
  const bool is_hopeless =
      error.reason == Reason::kDeadline || error.reason == Reason::kCancelled ||
      error.reason == Reason::kWriteStalled || error.reason == Reason::kInternal;
  if (is_hopeless) out.fields.emplace_back("X-Should-Retry", "false");
  return out;
}

HttpResponse ErrorResponse(int http_status, std::string_view message) {
  return ResponseOf(http_status, ErrorText(http_status, message, "", ""));
}

}  // namespace incipit
