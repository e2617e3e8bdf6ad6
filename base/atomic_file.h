// Declares WriteFileAtomically, which replaces a file as a whole.
#pragma once

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"

namespace incipit {

// Writes `contents` to a new file beside `path`, and renames the new file to `path`. Other
// processes see either the previous file or the new file. Only the user of the process may read the
// new file. After a power failure, the file may be empty or partly written, so the contents need a
// checksum. On an error, the message contains the path, and the previous file remains.
absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace incipit
