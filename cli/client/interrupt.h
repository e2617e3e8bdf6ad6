// Ctrl-C that stops what is under way instead of the program.
#pragma once

#include <functional>
#include <thread>

namespace incipit {

// While one exists, SIGINT calls `stop` on a thread of its own instead of ending the process. At
// most one exists at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();  // SIGINT means again what it meant before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  std::thread thread_;
};

}  // namespace incipit
