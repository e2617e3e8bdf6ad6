// Fuzzes the readers of OpenAI request bodies. The first byte of the input chooses the reader; the
// rest is the body. A body that a reader accepts must be JSON, and its drafts must pass the checks
// of the server or be refused. Every error must have a response with a JSON body.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "server/http/openai_error.h"
#include "server/http/openai_request.h"
#include "server/session/request/checked_request.h"
#include "server/session/request/request_error.h"

namespace {

using incipit::OpenAiLimits;
using incipit::RequestDraft;

constexpr int64_t kBodyBytesMax = 64 << 10;

incipit::ServedModel Model() {
  incipit::ServedModel model;
  model.name = "fake";
  model.vocab_size = 260;
  model.max_model_len = 1024;
  model.cache_tokens = 4096;
  model.has_tokenizer = model.has_chat_template = true;
  return model;
}

void CheckError(const absl::Status& status) {
  const incipit::HttpResponse response = incipit::ErrorResponse(status);
  INCIPIT_CHECK(response.status == 400 || response.status == 404);
  const nlohmann::json error = nlohmann::json::parse(response.body);
  INCIPIT_CHECK(error.at("error").at("message").is_string());
  INCIPIT_CHECK(response.body.size() < 4096);
}

void CheckRequest(RequestDraft draft, const incipit::RequestLimits& limits) {
  static const incipit::ServedModel model = Model();
  const auto checked =
      incipit::CheckDraft(std::move(draft), model, limits, [] { return absl::OkStatus(); });
  if (!checked.ok()) {
    CheckError(checked.status());
    return;
  }
  INCIPIT_CHECK(checked->request.num_choices >= 1 &&
                checked->request.num_choices <= limits.choices_max);
  INCIPIT_CHECK(checked->cache_salt.size() <= static_cast<size_t>(limits.cache_salt_bytes_max));
}

template <typename T>
void Check(const absl::StatusOr<T>& result, std::string_view body) {
  if (!result.ok()) {
    CheckError(result.status());
    return;
  }
  INCIPIT_CHECK(nlohmann::json::accept(body));
  INCIPIT_CHECK(body.size() <= static_cast<size_t>(kBodyBytesMax));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const incipit::RequestLimits request_limits;
  const OpenAiLimits limits{.request = request_limits, .body_bytes_max = kBodyBytesMax};
  switch (data[0] % 4) {
    case 0:
    case 1: {
      auto request = data[0] % 4 == 0 ? incipit::ReadCompletionRequest(body, limits)
                                      : incipit::ReadChatRequest(body, limits);
      Check(request, body);
      if (!request.ok()) break;
      INCIPIT_CHECK(!request->drafts.empty() && std::ssize(request->drafts) <= limits.prompts_max);
      for (RequestDraft& draft : request->drafts) CheckRequest(std::move(draft), request_limits);
      break;
    }
    case 2: {
      auto request = incipit::ReadTokenizeRequest(body, limits);
      Check(request, body);
      if (request.ok()) CheckRequest(*std::move(request), request_limits);
      break;
    }
    default:
      Check(incipit::ReadDetokenizeRequest(body, limits), body);
  }
  return 0;
}
