// The routes of the HTTP server: OpenAI's API, and pages for probes and Prometheus.
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
#include "server/session/prompt_encoder.h"

namespace incipit {

// The objects that OpenAiRoutes uses. REQUIRES: all objects outlive the routes.
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
};

// Thread-safe. No function waits.
class OpenAiRoutes {
 public:
  explicit OpenAiRoutes(const RoutesContext& context);

  // Returns the response to a request that must be refused before its body is read: unknown path,
  // wrong method, or a request that CheckBrowser refuses. Otherwise returns nothing.
  std::optional<HttpResponse> Check(const HttpRequestHead& head) const;
  // Responds to a request that Check does not refuse.
  void Handle(std::shared_ptr<HttpExchange> exchange);

 private:
  using Handler = void (OpenAiRoutes::*)(const std::shared_ptr<HttpExchange>&);
  struct Route {
    std::string_view method, path;
    Handler handle;
  };
  // Returns the route of `head`, or null if no route matches.
  static const Route* Find(const HttpRequestHead& head);
  // Returns the methods that are allowed for `path`, separated by commas.
  static std::string MethodsOf(std::string_view path);

  void Models(const std::shared_ptr<HttpExchange>& exchange);
  void Model(const std::shared_ptr<HttpExchange>& exchange);
  void Completions(const std::shared_ptr<HttpExchange>& exchange);
  void ChatCompletions(const std::shared_ptr<HttpExchange>& exchange);
  void Tokenize(const std::shared_ptr<HttpExchange>& exchange);
  void Detokenize(const std::shared_ptr<HttpExchange>& exchange);
  void Version(const std::shared_ptr<HttpExchange>& exchange);
  void MetricsPage(const std::shared_ptr<HttpExchange>& exchange);
  void HealthPage(const std::shared_ptr<HttpExchange>& exchange);
  void ReadyPage(const std::shared_ptr<HttpExchange>& exchange);
  void LivePage(const std::shared_ptr<HttpExchange>& exchange);

  // Returns the JSON object that describes the model under `name`.
  std::string ModelJson(std::string_view name) const;
  // Calls `work` with the body on a text thread, and sends the returned JSON text or error.
  void RunText(const std::shared_ptr<HttpExchange>& exchange,
               absl::StatusOr<std::string> (OpenAiRoutes::*work)(std::string_view body) const);
  absl::StatusOr<std::string> TokenizeBody(std::string_view body) const;
  absl::StatusOr<std::string> DetokenizeBody(std::string_view body) const;

  const RoutesContext context_;
  const HttpGuardOptions guard_;
  const int64_t start_time_;  // seconds since 1970
  const uint64_t random_key_;
  std::atomic<uint64_t> num_calls_{0};
  // Estimated size in bytes of all output that waits for the end of its response.
  std::atomic<int64_t> num_kept_bytes_{0};
};

}  // namespace incipit
