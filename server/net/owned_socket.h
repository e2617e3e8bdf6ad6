// A class that owns the file descriptor of a socket. The destructor closes the file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace incipit {

class OwnedSocket {
 public:
  explicit OwnedSocket(int fd = -1) : fd_(fd) {}
  OwnedSocket(OwnedSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedSocket& operator=(OwnedSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedSocket() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace incipit
