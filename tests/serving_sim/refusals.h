// Counts refused requests that would have met their deadline.
#pragma once

#include <cstdint>

#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/load.h"
#include "tests/serving_sim/run.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

// Returns an estimate of the share of all requests with deadlines that were refused in `run`, but
// would have had their first token in time. For at most `sample_max` refused requests, the load
// runs again with 2, 4, ... times the time to the deadline for this one request, until the request
// is not refused. The refusal was wrong if the first token of the request is then computed before
// the original deadline. Returns 0 if no request was refused.
double WronglyRefused(const DeviceModel& device, const Load& load, SchedulerKind kind,
                      int32_t steps_in_flight, const RunOptions& options, const RunRecord& run,
                      int32_t sample_max);

}  // namespace incipit::serving_sim
