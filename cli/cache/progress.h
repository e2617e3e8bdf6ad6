// Reports the progress of a long command on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace incipit {

// Prints one line that is replaced once a second, and only if stderr is a terminal. The first line
// is printed after a second.
class Progress {
 public:
  // `command` is the name of the command, for example "cache verify".
  explicit Progress(std::string_view command);
  ~Progress();  // removes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Reports that `done` of `total` units are done. If `total` is 0, the total is unknown. `unit` is
  // the name of the unit, for example "segments".
  void Report(uint64_t done, uint64_t total, std::string_view unit);

 private:
  const std::string command_;
  const bool is_terminal_;
  bool has_line_ = false;
  Time next_line_;
};

}  // namespace incipit
