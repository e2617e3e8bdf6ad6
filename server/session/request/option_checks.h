// Checks the options of a request for sampling, output and cache. Each function writes the checked
// values to `out`.
#pragma once

#include "absl/status/status.h"
#include "server/session/request/checked_request.h"

namespace incipit {

absl::Status CheckSampling(const SamplingDraft& draft, const ServedModel& model,
                           const RequestLimits& limits, CheckedRequest& out);
absl::Status CheckOutput(OutputDraft draft, const ServedModel& model, const RequestLimits& limits,
                         CheckedRequest& out);
absl::Status CheckCache(CacheDraft draft, const RequestLimits& limits, CheckedRequest& out);

}  // namespace incipit
