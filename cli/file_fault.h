// Handles SIGBUS for mapped weight files. If a mapped file is truncated while the server reads from
// the file, the kernel sends SIGBUS, which would otherwise look like a crash of the server.
#pragma once

#include <string_view>

namespace incipit {

// Installs a handler for SIGBUS. An access beyond the end of a mapped file then ends the process
// with `exit_code` and one line on stderr that names `folder`. Other causes of SIGBUS keep the
// default action. REQUIRES: called at most once, before other threads read mapped files.
void ExitOnFileFault(std::string_view folder, int exit_code);

}  // namespace incipit
