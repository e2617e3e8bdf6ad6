// The weights are read from mapped files: where such a file is cut off while it is in use, the
// kernel sends SIGBUS, which would otherwise look like a crash of ours.
#pragma once

#include <string_view>

namespace incipit {

// From here on such a fault ends the process with `exit_code` and one line on stderr that names
// `folder`. Other causes of SIGBUS stay what they are. Once, before threads read mapped files.
void ExitOnFileFault(std::string_view folder, int exit_code);

}  // namespace incipit
