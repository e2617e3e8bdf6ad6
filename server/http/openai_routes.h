// Handles the requests to each path of the HTTP server: OpenAI's API, the chat page, health
// pages and metrics.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/http_exchange.h"
#include "server/http/http_guard.h"
#include "server/http/http_message.h"
#include "server/http/openai_call.h"
#include "server/metrics/metrics.h"
#include "server/rpc/health.h"
#include "server/session/api_keys.h"
#include "server/session/prompt_encoder.h"
#include "server/session/random_source.h"

namespace incipit {

// The objects that OpenAiRoutes uses. REQUIRES: all objects outlive the OpenAiRoutes.
struct RoutesContext {
  const Options& options;
  const ServedModel& model;
  const Tokenizer* tokenizer;  // null if the model has no tokenizer
  const PromptEncoder& encoder;
  SessionStarter& starter;
  CallTracker& calls;
  Metrics& metrics;
  const Health& health;
  const Clock& clock;
  const ApiKeys& keys;
  // Estimated number of bytes of output that all HTTP and gateway calls together keep in memory.
  // Each call keeps its part until the response of the call is complete.
  std::atomic<int64_t>& num_kept_bytes;
};

// Calls, for each HTTP request, the function for the path and the method of the request.
// Thread-safe. No function waits.
class OpenAiRoutes {
 public:
  explicit OpenAiRoutes(const RoutesContext& context);

  // Checks a request before its body is read. Returns an error response if the path is unknown, the
  // method is wrong, or a necessary API key is missing. Returns an error response if CheckBrowser
  // refuses the request of a web page. Returns a response to a request with the method OPTIONS.
  // Otherwise returns nullopt.
  std::optional<HttpResponse> Check(const HttpRequestHead& head) const;
  // Responds to the request of `exchange`. REQUIRES: Check returned nullopt for the request.
  void Handle(std::shared_ptr<HttpExchange> exchange);

 private:
  using Handler = void (OpenAiRoutes::*)(const std::shared_ptr<HttpExchange>&);
  struct Route {
    std::string_view method, path;
    Handler handle;
  };
  // Returns the route (with the handler) for the path and the method of `head`, or null if no route
  // fits.
  const Route* Find(const HttpRequestHead& head) const;
  // Returns true if the request `head` needs no API key, or contains an API key of the server.
  bool HasKey(const HttpRequestHead& head) const;
  // Returns the HTTP methods that `path` supports, separated by commas.
  std::string MethodsOf(std::string_view path) const;

  void Page(const std::shared_ptr<HttpExchange>& exchange);
  void Models(const std::shared_ptr<HttpExchange>& exchange);
  void Model(const std::shared_ptr<HttpExchange>& exchange);
  void Completions(const std::shared_ptr<HttpExchange>& exchange);
  void ChatCompletions(const std::shared_ptr<HttpExchange>& exchange);
  // Starts an OpenAiCall for the request of `exchange`: a chat request if `is_chat` is true,
  // otherwise a completion request.
  void StartCall(const std::shared_ptr<HttpExchange>& exchange, bool is_chat);
  void Tokenize(const std::shared_ptr<HttpExchange>& exchange);
  void Detokenize(const std::shared_ptr<HttpExchange>& exchange);
  void Version(const std::shared_ptr<HttpExchange>& exchange);
  void MetricsPage(const std::shared_ptr<HttpExchange>& exchange);
  void HealthPage(const std::shared_ptr<HttpExchange>& exchange);
  void ReadyPage(const std::shared_ptr<HttpExchange>& exchange);
  void LivePage(const std::shared_ptr<HttpExchange>& exchange);

  // A function that returns the JSON text of the response to a request with the body `body`, or an
  // error.
  using TextWork = absl::StatusOr<std::string> (OpenAiRoutes::*)(std::string_view body,
                                                                 CheckWanted check_wanted) const;

  // Returns OpenAI's JSON object of the served model, with `name` as the name of the model.
  std::string ModelJson(std::string_view name) const;
  // Calls `work` with the body of the request on a thread that renders chat templates and
  // tokenizes. Sends the JSON text or the error that `work` returns. Does not call `work` if the
  // client has disconnected.
  void RunText(const std::shared_ptr<HttpExchange>& exchange, TextWork work);
  absl::StatusOr<std::string> TokenizeBody(std::string_view body, CheckWanted check_wanted) const;
  absl::StatusOr<std::string> DetokenizeBody(std::string_view body, CheckWanted) const;

  const RoutesContext context_;
  const HttpGuardOptions guard_;
  const int64_t start_time_;  // start of the server, in seconds since 1970
  RandomSource random_;       // random numbers for the ids of responses
};

}  // namespace incipit
