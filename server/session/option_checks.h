// Checks of how to sample, what to output and what to keep cached: the parts of a draft that have
// nothing to do with its prompt.
#pragma once

#include "absl/status/status.h"
#include "server/session/checked_request.h"

namespace incipit {

absl::Status CheckSampling(const SamplingDraft& draft, const ServedModel& model,
                           const RequestLimits& limits, CheckedRequest& out);
absl::Status CheckOutput(OutputDraft draft, const ServedModel& model, const RequestLimits& limits,
                         CheckedRequest& out);
absl::Status CheckCache(CacheDraft draft, const RequestLimits& limits, CheckedRequest& out);

}  // namespace incipit
