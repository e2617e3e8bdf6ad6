// INCIPIT_CHECK: aborts the program if an invariant is broken, so that a bug cannot corrupt a
// client's output.
#pragma once

namespace incipit {

// Prints file, line and condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace incipit

// Aborts if `condition` is false, in every build type. Only for bugs of the program. Errors that a
// client, a file or a device can cause are returned as an absl::Status.
#define INCIPIT_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::incipit::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)
