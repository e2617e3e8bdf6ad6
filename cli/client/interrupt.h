// Makes Ctrl-C stop the current action instead of the program.
#pragma once

#include <functional>
#include <thread>

namespace incipit {

// While an Interrupt exists, SIGINT calls `stop` on a separate thread instead of ending the
// process. At most one Interrupt exists at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();  // restores the handling of SIGINT from before the constructor
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  std::thread thread_;
};

}  // namespace incipit
