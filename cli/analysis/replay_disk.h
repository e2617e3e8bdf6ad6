// The flags of `incipit replay` that describe a simulated disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/flags.h"
#include "cli/analysis/analyze_blocks.h"
#include "cli/analysis/replay_output.h"
#include "cli/analysis/replay_run.h"

namespace incipit {

struct ReplayDiskFlags {
  // Size of the disk divided by the bytes of all distinct chunks in the log; absent: no disk.
  std::optional<double> capacity_share;
  std::optional<double> write_megabytes_per_s, prefill_tokens_per_s;
  std::optional<int64_t> token_bytes;  // keys and values of one token
};

void BindReplayDiskFlags(Flags& flags, ReplayDiskFlags& values);

// Returns INVALID_ARGUMENT if a flag of the disk is set although there is no disk.
absl::Status CheckReplayDiskFlags(const ReplayDiskFlags& values);

// Returns the simulated disk that the flags describe, and its description for the output. `name` is
// the name of the log for error messages. Returns INVALID_ARGUMENT if the log does not fit the
// flags. REQUIRES: `values.capacity_share` is set, and `log` has a request.
absl::StatusOr<std::pair<ReplayDisk, ReplayDiskText>> MakeReplayDisk(const ReplayDiskFlags& values,
                                                                     const std::string& name,
                                                                     const BlockLog& log);

}  // namespace incipit
