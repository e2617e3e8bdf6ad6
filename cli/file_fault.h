// Handles the signal SIGBUS. The kernel sends SIGBUS if a mapped weight file is truncated while the
// server reads from the file. The handler prints this cause before the process ends.
#pragma once

#include <string_view>

namespace incipit {

// Installs a handler for SIGBUS. After an access beyond the end of a mapped file, the handler
// prints a message that names `folder`, and ends the process with `exit_code`.
//
// REQUIRES: called at most once, before other threads read mapped files.
void ExitOnFileFault(std::string_view folder, int exit_code);

}  // namespace incipit
