// Defines INCIPIT_CHECK, which aborts the program if an invariant is broken. A bug therefore cannot
// corrupt a client's output.
#pragma once

namespace incipit {

// Prints the file, the line and the condition of a failed INCIPIT_CHECK to stderr, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace incipit

// Aborts the program if `condition` is false, in every build type. Used only for bugs of the
// program. An error that a client, a file or a device can cause is returned as an absl::Status.
#define INCIPIT_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::incipit::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)
