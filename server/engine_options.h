// The flags of the cache and of the scheduler.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/flags.h"
#include "engine/engine.h"
#include "server/options.h"

namespace incipit {

// Adds a flag whose value is "auto" or a whole number from `min` to `max`. The value "auto" sets
// `target` to nullopt.
void AutoInteger(Flags& flags, FlagText text, std::optional<int32_t>& target, int32_t min,
                 int32_t max = std::numeric_limits<int32_t>::max());

// Adds the flags of the groups "Cache" and "Scheduling", which set members of `options`.
void BindCache(Options& options, Flags& flags);
void BindScheduling(Options& options, Flags& flags);

// Returns the options of the scheduler, except the limits that depend on the device
// (step_tokens_max and steps_in_flight_max).
SchedulerOptions SchedulerOptionsOf(const Options& options);

// Returns the names of the tenants in --tenant-weights whose service the metrics report, in the
// order of ShareOptions::reported: the kReportedTenantsMax largest weights, largest first. Equal
// weights are in the order of the names. A tenant with the name kOtherTenants is left out.
std::vector<std::string> ReportedTenants(const Options& options);

}  // namespace incipit
