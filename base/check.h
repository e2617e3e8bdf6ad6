// Defines INCIPIT_CHECK, a macro that aborts the program if a condition is false.
#pragma once

namespace incipit {

// Prints the file, the line and the condition of a failed INCIPIT_CHECK to stderr. Then aborts the
// program.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace incipit

// Aborts the program if `condition` is false, in every build type. Use this macro only to detect
// bugs of the program. An error that a client, a file or a device can cause is returned as an
// absl::Status instead.
#define INCIPIT_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::incipit::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)
