#include "server/http/openai_routes.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/status.h"
#include "server/http/append_json.h"
#include "server/http/chat_page.h"
#include "server/http/openai_error.h"
#include "server/http/openai_request.h"
#include "server/net/address.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr std::string_view kKeyField = "Authorization";
constexpr std::string_view kModelPrefix = "/v1/models/";

HttpGuardOptions GuardOf(const Options& options) {
  return {.is_loopback = IsLoopbackHost(options.http_address.address.host),
          .hosts = options.http_hosts,
          .origins = options.http_origins};
}

HttpResponse TextPage(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

absl::Status ClientIsGone() { return Refuse(Reason::kCancelled, "the client has disconnected"); }

absl::Status NoTokenizer() { return Refuse(Reason::kNoTokenizer, "this model has no tokenizer"); }

}  // namespace

OpenAiRoutes::OpenAiRoutes(const RoutesContext& context)
    : context_(context),
      guard_(GuardOf(context.options)),
      start_time_(static_cast<int64_t>(std::time(nullptr))) {}

const OpenAiRoutes::Route* OpenAiRoutes::Find(const HttpRequestHead& head) const {
  static constexpr std::array<Route, 10> kRoutes = {{
      {"GET", "/v1/models", &OpenAiRoutes::Models},
      {"POST", "/v1/completions", &OpenAiRoutes::Completions},
      {"POST", "/v1/chat/completions", &OpenAiRoutes::ChatCompletions},
      {"POST", "/tokenize", &OpenAiRoutes::Tokenize},
      {"POST", "/detokenize", &OpenAiRoutes::Detokenize},
      {"GET", "/version", &OpenAiRoutes::Version},
      {"GET", "/metrics", &OpenAiRoutes::MetricsPage},
      {"GET", "/health", &OpenAiRoutes::HealthPage},
      {"GET", "/readyz", &OpenAiRoutes::ReadyPage},
      {"GET", "/livez", &OpenAiRoutes::LivePage},
  }};
  static constexpr Route kPage = {"GET", "/", &OpenAiRoutes::Page};
  static constexpr Route kModel = {"GET", kModelPrefix, &OpenAiRoutes::Model};
  const std::string_view path = head.path();
  const std::string_view method =
      head.method == "HEAD" ? std::string_view("GET") : std::string_view(head.method);
  for (const Route& route : kRoutes) {
    if (route.path == path && route.method == method) return &route;
  }
  if (context_.options.web && path == kPage.path && method == kPage.method) return &kPage;
  return path.starts_with(kModelPrefix) && method == "GET" ? &kModel : nullptr;
}

std::string OpenAiRoutes::MethodsOf(std::string_view path) const {
  for (const std::string_view method : {"GET", "POST"}) {
    HttpRequestHead head{.method = std::string(method), .target = std::string(path)};
    if (Find(head) != nullptr) return method == "GET" ? "GET, HEAD" : "POST";
  }
  return {};
}

bool OpenAiRoutes::HasKey(const HttpRequestHead& head) const {
  // Health pages need no API key, because orchestrators such as Kubernetes request the pages
  // without a key. The chat page needs no key, because a user enters the key in the page. Before a
  // browser sends a request for a web page, the browser sends an OPTIONS request without the key.
  const std::string_view path = head.path();
  const bool is_public = path == "/" || path == "/health" || path == "/readyz" || path == "/livez";
  if (is_public || head.method == "OPTIONS") return true;
  return context_.keys.Accept(head.Field(kKeyField)) &&
         (!context_.keys.are_required() || head.NumFields(kKeyField) == 1);
}

std::optional<HttpResponse> OpenAiRoutes::Check(const HttpRequestHead& head) const {
  const auto with_fields = [&](HttpResponse response) {
    std::ranges::move(CrossOriginFields(head, guard_), std::back_inserter(response.fields));
    return response;
  };
  if (auto refusal = CheckBrowser(head, guard_); refusal) return refusal;
  if (!HasKey(head)) {
    context_.metrics.OnRequestRejected(Reason::kInvalidApiKey);
    return with_fields(
        ErrorResponse(Refuse(Reason::kInvalidApiKey,
                             "the request needs the field Authorization with the value Bearer "
                             "KEY, where KEY is an API key of the server")));
  }
  if (Find(head) != nullptr) return std::nullopt;
  const std::string methods = MethodsOf(head.path());
  if (methods.empty()) return with_fields(ErrorResponse(404, "the requested path is unknown"));
  if (head.method == "OPTIONS") {
    HttpResponse allowed{.status = 204, .content_type = {}};
    allowed.fields.emplace_back("Allow", methods);
    return with_fields(std::move(allowed));
  }
  HttpResponse wrong =
      ErrorResponse(405, "the path does not support the HTTP method of the request");
  wrong.fields.emplace_back("Allow", methods);
  return with_fields(std::move(wrong));
}

void OpenAiRoutes::Handle(std::shared_ptr<HttpExchange> exchange) {
  exchange->AddFields(CrossOriginFields(exchange->head(), guard_));
  (this->*Find(exchange->head())->handle)(exchange);
}

void OpenAiRoutes::Page(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->Respond(ChatPage());
}

std::string OpenAiRoutes::ModelJson(std::string_view name) const {
  std::string out = R"({"id":)";
  AppendJson(name, out);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"incipit","root":)", start_time_);
  AppendJson(context_.model.name, out);
  return out + fmt::format(R"(,"parent":null,"max_model_len":{}}})", context_.model.max_model_len);
}

void OpenAiRoutes::Models(const std::shared_ptr<HttpExchange>& exchange) {
  std::string list = ModelJson(context_.model.name);
  for (const std::string& alias : context_.model.aliases) list += "," + ModelJson(alias);
  exchange->Respond({.body = R"({"object":"list","data":[)" + list + "]}"});
}

void OpenAiRoutes::Model(const std::shared_ptr<HttpExchange>& exchange) {
  const std::string name = PercentDecoded(exchange->head().path().substr(kModelPrefix.size()));
  if (!context_.model.HasName(name)) {
    exchange->Respond(
        ErrorResponse(Refuse(Reason::kModelNotFound, "the server has no model with this name")));
    return;
  }
  exchange->Respond({.body = ModelJson(name)});
}

void OpenAiRoutes::Completions(const std::shared_ptr<HttpExchange>& exchange) {
  StartCall(exchange, /*is_chat=*/false);
}

void OpenAiRoutes::ChatCompletions(const std::shared_ptr<HttpExchange>& exchange) {
  StartCall(exchange, /*is_chat=*/true);
}

void OpenAiRoutes::StartCall(const std::shared_ptr<HttpExchange>& exchange, bool is_chat) {
  OpenAiCall::Start({context_.options, context_.model, context_.tokenizer, context_.starter,
                     context_.calls, context_.clock, context_.num_kept_bytes},
                    exchange, is_chat, random_.Next());
}

void OpenAiRoutes::RunText(const std::shared_ptr<HttpExchange>& exchange, TextWork work) {
  const auto num_bytes = static_cast<int64_t>(exchange->body().size());
  const auto is_closed = std::make_shared<std::atomic<bool>>(false);
  exchange->OnClosed([is_closed] { *is_closed = true; });
  context_.starter.RunText(exchange->head().peer, {.num_bytes = num_bytes}, /*tokens_behind=*/0,
                           [this, exchange, is_closed, work](const absl::Status& room) {
                             const auto check_wanted = [&] {
                               return *is_closed ? ClientIsGone() : absl::OkStatus();
                             };
                             if (*is_closed) return;
                             const absl::StatusOr<std::string> json =
                                 room.ok() ? (this->*work)(exchange->body(), check_wanted) : room;
                             if (*is_closed) return;
                             if (json.ok()) {
                               exchange->Respond({.body = *json});
                               return;
                             }
                             context_.metrics.OnRequestRejected(ErrorOf(json.status()).reason);
                             exchange->Respond(ErrorResponse(json.status()));
                           });
}

void OpenAiRoutes::Tokenize(const std::shared_ptr<HttpExchange>& exchange) {
  RunText(exchange, &OpenAiRoutes::TokenizeBody);
}

void OpenAiRoutes::Detokenize(const std::shared_ptr<HttpExchange>& exchange) {
  RunText(exchange, &OpenAiRoutes::DetokenizeBody);
}

absl::StatusOr<std::string> OpenAiRoutes::TokenizeBody(std::string_view body,
                                                       CheckWanted check_wanted) const {
  if (context_.tokenizer == nullptr) return NoTokenizer();
  const RequestLimits& limits = context_.options.request;
  INCIPIT_ASSIGN_OR_RETURN(
      RequestDraft draft,
      ReadTokenizeRequest(
          body, {.request = limits, .body_bytes_max = context_.options.message_bytes_max}));
  INCIPIT_RETURN_IF_ERROR(CheckModelName(draft.model, context_.model));
  std::vector<TokenId> ids;
  if (auto* const text = std::get_if<std::string>(&draft.prompt)) {
    INCIPIT_ASSIGN_OR_RETURN(ids, context_.encoder.EncodeText(*text, draft.add_special_tokens));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(CheckedRequest checked,
                             CheckDraft(std::move(draft), context_.model, limits, check_wanted));
    INCIPIT_ASSIGN_OR_RETURN(
        PromptEncoder::Encoded encoded,
        context_.encoder.Encode(checked, context_.model, limits, check_wanted));
    ids = std::move(encoded.tokens);
  }
  std::string out = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":)", ids.size(),
                                context_.model.max_model_len);
  AppendJson(ids, out);
  return out + "}";
}

absl::StatusOr<std::string> OpenAiRoutes::DetokenizeBody(std::string_view body, CheckWanted) const {
  if (context_.tokenizer == nullptr) return NoTokenizer();
  const RequestLimits& limits = context_.options.request;
  INCIPIT_ASSIGN_OR_RETURN(
      const DetokenizeRequest request,
      ReadDetokenizeRequest(
          body, {.request = limits, .body_bytes_max = context_.options.message_bytes_max}));
  INCIPIT_RETURN_IF_ERROR(CheckModelName(request.model, context_.model));
  INCIPIT_ASSIGN_OR_RETURN(
      const std::string text,
      context_.encoder.DecodeIds("tokens", request.tokens, /*skip_special_tokens=*/false,
                                 context_.model, limits));
  std::string out = R"({"prompt":)";
  AppendJson(text, out);
  return out + "}";
}

void OpenAiRoutes::Version(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->Respond({.body = R"({"version":")" INCIPIT_VERSION R"("})"});
}

void OpenAiRoutes::MetricsPage(const std::shared_ptr<HttpExchange>& exchange) {
  HttpResponse page = TextPage(200, context_.metrics.Text());
  page.content_type = std::string(kMetricsContentType);
  exchange->Respond(std::move(page));
}

void OpenAiRoutes::HealthPage(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->Respond(context_.health.is_broken() ? TextPage(503, "the engine has failed or hangs\n")
                                                : TextPage(200, "ok\n"));
}

void OpenAiRoutes::ReadyPage(const std::shared_ptr<HttpExchange>& exchange) {
  if (context_.health.is_draining()) {
    exchange->Respond(TextPage(503, "the server is draining\n"));
  } else if (context_.health.is_prewarming()) {
    exchange->Respond(TextPage(503, "the server computes the prompts of --prewarm\n"));
  } else {
    HealthPage(exchange);
  }
}

void OpenAiRoutes::LivePage(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->Respond(TextPage(200, "ok\n"));
}

}  // namespace incipit
