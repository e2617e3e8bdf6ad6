// Makes Ctrl-C stop the current action, such as a call to the server, instead of the program.
#pragma once

#include <functional>
#include <thread>

namespace incipit {

// While an Interrupt exists, SIGINT calls `stop` on a separate thread instead of ending the
// process. At most one Interrupt exists at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> stop);
  ~Interrupt();  // restores the SIGINT handler that the constructor replaced
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  std::thread thread_;
};

}  // namespace incipit
