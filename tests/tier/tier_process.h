// The tier of the program tier_process, and the start and end of the program.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "tests/tier/tier_chunks.h"
#include "tier/disk_tier.h"

namespace incipit {

struct TierProcess {
  explicit TierProcess(const std::string& directory) {
    options.directory = directory;
    options.segment_bytes = 50 * kPageBytes;  // 16 records
    options.size_bytes = 8 * options.segment_bytes;
    options.staging_bytes = 17 * 3 * kPageBytes;
    options.shape = kTestShape;
    options.clock = &clock;
    options.unix_seconds = [] { return int64_t{1'000'000}; };
  }
  SteadyClock clock;
  DiskTierOptions options;
};

// A running program.
class ChildProcess {
 public:
  ChildProcess(const char* program, std::initializer_list<std::string> arguments) {
    int to_child[2], from_child[2];
    if (::pipe(to_child) != 0 || ::pipe(from_child) != 0) std::abort();
    std::vector<char*> argv = {const_cast<char*>(program)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to_child[0], 0);
      ::dup2(from_child[1], 1);
      for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) ::close(fd);
      ::execv(program, argv.data());
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    input_ = to_child[1];
    output_ = ::fdopen(from_child[0], "r");
  }
  ~ChildProcess() {
    Kill();
    ::close(input_);
    std::fclose(output_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Returns the next line of the output, or std::nullopt at the end of the output.
  std::optional<std::string> ReadLine() {
    std::string line;
    for (int c = std::getc(output_); c != EOF; c = std::getc(output_)) {
      if (c == '\n') return line;
      line.push_back(static_cast<char>(c));
    }
    return std::nullopt;
  }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::FILE* output_ = nullptr;
};

}  // namespace incipit
