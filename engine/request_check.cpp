#include "engine/request_check.h"

#include "base/status.h"

namespace incipit {

absl::Status CheckRequest(const Request& request, const KvCacheManager& cache) {
  if (request.prompt.empty())
    return InvalidArgument("prompt has no tokens; it must have at least 1 token");
  if (request.output_tokens_max < 1) {
    return InvalidArgument("output_tokens_max is {}; it must be at least 1",
                           request.output_tokens_max);
  }
  if (request.num_choices < 1 || request.num_choices > kChoicesMax) {
    return InvalidArgument("num_choices is {}; it must be from 1 to {}", request.num_choices,
                           kChoicesMax);
  }
  const int64_t num_tokens =
      static_cast<int64_t>(request.prompt.size()) + request.output_tokens_max;
  if (!cache.Fits(num_tokens)) {
    return InvalidArgument(
        "a prompt of {} tokens and an output of up to {} tokens need room for {} tokens in the KV "
        "cache, which has room for {} tokens",
        request.prompt.size(), request.output_tokens_max, num_tokens, cache.capacity_tokens());
  }
  return absl::OkStatus();
}

}  // namespace incipit
