// Reads the log of the Mooncake project (tests/data/traces/SOURCE.md).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/serving_sim/load.h"

namespace incipit::serving_sim {
namespace {

// A request belongs to the focus (SimRequest::is_focus) if its prompt has at most this number of
// tokens in the log.
constexpr int32_t kShortPrompt = 4096;

// Returns `log_tokens` times `hash_id_tokens` / kMooncakeBlockTokens, rounded up. 0 tokens count
// as 1.
int32_t ScaledLength(int64_t log_tokens, int32_t hash_id_tokens) {
  const int64_t tokens = std::max<int64_t>(log_tokens, 1) * hash_id_tokens;
  return static_cast<int32_t>((tokens + kMooncakeBlockTokens - 1) / kMooncakeBlockTokens);
}

// Reads a request from one line of the log. Returns false if a field is missing or wrong.
bool ReadRequest(const nlohmann::json& json, uint64_t index, int32_t hash_id_tokens,
                 SimRequest& request) {
  if (!json.is_object() || !json.contains("hash_ids") || !json["hash_ids"].is_array()) return false;
  const int32_t log_prompt = json.value("input_length", 0);
  if (log_prompt <= 0) return false;
  const int32_t num_prompt = ScaledLength(log_prompt, hash_id_tokens);
  request.tenant = 1;
  request.arrival = json.value("timestamp", 0.0) / 1000;
  request.output_tokens = ScaledLength(json.value("output_length", 1), hash_id_tokens);
  request.output_text = Mix(0x6d6f6f6e, index);
  for (const nlohmann::json& id : json["hash_ids"]) {
    if (!id.is_number_unsigned()) return false;
    for (int32_t i = 0; i < hash_id_tokens && request.num_prompt() < num_prompt; ++i) {
      request.prompt.push_back(TextToken(id.get<uint64_t>(), i));
    }
  }
  request.is_focus = log_prompt <= kShortPrompt;
  return request.num_prompt() > 0;
}

}  // namespace

absl::StatusOr<std::vector<SimRequest>> ReadMooncake(const std::string& path, int32_t requests_max,
                                                     int64_t tokens_max, int32_t hash_id_tokens) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("cannot open {}", path));
  std::vector<SimRequest> requests;
  std::string line;
  while (requests.size() < static_cast<size_t>(requests_max) && std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    SimRequest request;
    if (!ReadRequest(json, requests.size(), hash_id_tokens, request)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line {} is no request", path, requests.size() + 1));
    }
    if (request.num_prompt() + request.output_tokens > tokens_max) continue;
    requests.push_back(std::move(request));
  }
  if (requests.size() < 2) return absl::InvalidArgumentError(fmt::format("{}: too short", path));
  return requests;
}

}  // namespace incipit::serving_sim
