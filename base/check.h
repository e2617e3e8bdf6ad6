// INCIPIT_CHECK: the line between our bugs and everybody else's errors. Without it a broken
// invariant would travel until it corrupts somebody's answer.
#pragma once

namespace incipit {

// Prints file, line and condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace incipit

// Aborts on a broken invariant, in every build type. For programmer errors only: anything that a
// client, a file or a device can cause is an absl::Status.
#define INCIPIT_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::incipit::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)
