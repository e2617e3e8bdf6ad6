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

// Returns the tenants of --tenant-weights that have their own label in the metrics: the
// kReportedTenantsMax tenants with the largest weights, largest weight first. Tenants of equal
// weight are in the order of their names. Leaves out a tenant with the name kOtherTenants.
// ShareOptions::reported has the same order.
std::vector<std::string> ReportedTenants(const Options& options);

}  // namespace incipit
