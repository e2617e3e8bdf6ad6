// Tests the program `incipit serve` as a process: its output, its files and its exit codes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = std::string(INCIPIT_SOURCE_DIR) + "/models/incipit-tiny";

// A running process `incipit serve`. The destructor kills the process if it has not ended.
class Program {
 public:
  explicit Program(std::vector<std::string> args) {
    args.insert(args.begin(), {"incipit", "serve"});
    int out[2], err[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const std::string path = std::string(INCIPIT_BINARY_DIR) + "/incipit";
    EXPECT_EQ(posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }

  // Returns the first line of stdout, which the program writes when the server is ready. Returns an
  // empty text if the process ends without writing a line.
  std::string AwaitReady() {
    std::string line;
    char c = 0;
    while (read(out_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  pid_t pid() const { return pid_; }
  void Signal(int signal) { kill(pid_, signal); }
  // Closes the pipes for stdout and stderr, as if their reader had ended.
  void StopReading() {
    close(std::exchange(out_, -1));
    close(std::exchange(err_, -1));
  }
  // Waits until the process ends. Returns its exit code. errors() then contains its output to
  // stderr.
  int Wait() {
    char buffer[4096];
    ssize_t size = 0;
    while ((size = read(err_, buffer, sizeof(buffer))) > 0) {
      errors_.append(buffer, static_cast<size_t>(size));
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& errors() const { return errors_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::string errors_;
};

std::vector<std::string> Args(std::vector<std::string> more) {
  std::vector<std::string> args = {
      "--model=" + kModel,   "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
      "--http-address=none", "--kv-blocks=256",       "--backend=cpu"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void ExpectRefusal(std::vector<std::string> args, int exit_code, const std::string& names) {
  Program program(std::move(args));
  EXPECT_EQ(program.Wait(), exit_code) << names;
  EXPECT_THAT(program.errors(), AllOf(testing::StartsWith("incipit serve: "), HasSubstr(names)));
  EXPECT_EQ(std::count(program.errors().begin(), program.errors().end(), '\n'), 1)
      << program.errors();
}

TEST(ServeTest, WhatCannotBeServedIsOneLineAndAnExitCode) {
  ExpectRefusal({}, 2, "--model");
  ExpectRefusal(Args({"--step-tokens=many"}), 2, "--step-tokens");
  ExpectRefusal(Args({"--step-token=4"}), 2, "--step-tokens");
  ExpectRefusal(Args({"--kv-memory=1GiB"}), 2, "--kv-blocks and --kv-memory");
  ExpectRefusal(Args({"--max-model-len=1000000"}), 2, "--max-model-len is 1000000");
  ExpectRefusal(Args({"--config=/nonexistent.yaml"}), 2, "/nonexistent.yaml");
  ExpectRefusal(Args({"--model=/nonexistent"}), 3, "/nonexistent");
  ExpectRefusal(Args({"--chat-template=/nonexistent.jinja"}), 3, "/nonexistent.jinja");
  ExpectRefusal(Args({"--chat-template=" + testing::TempDir()}), 3, testing::TempDir());
  ExpectRefusal(Args({"--backend=cuda"}), 5, "use --backend cpu");
  ExpectRefusal(Args({"--backend=cpu", "--kv-dtype=f16"}), 2,
                "--kv-dtype is f16; the backend cpu supports f32, bf16");
  ExpectRefusal(Args({"--kv-blocks=2147483647"}), 2, "--kv-blocks is \"2147483647\"");
}

TEST(ServeTest, WithoutACardTheCpuServesAndTheLogSaysWhy) {
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);  // hides the graphics cards of this machine
  Program refused(Args({"--backend=cuda"}));
  EXPECT_EQ(refused.Wait(), 5);
  const bool has_backend = refused.errors().find("built without CUDA") == std::string::npos;
  Program program(Args({"--backend=auto"}));
  EXPECT_THAT(program.AwaitReady(), HasSubstr("serving"));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  unsetenv("CUDA_VISIBLE_DEVICES");
  if (!has_backend) GTEST_SKIP() << "a build without CUDA has only the CPU backend";
  EXPECT_THAT(program.errors(), HasSubstr("serving on the CPU: no "));
}

TEST(ServeTest, APortInUseIsNamedBeforeAModelIsLoaded) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&bound), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size), 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  ExpectRefusal(Args({"--address=" + address}), 4, "--address " + address);
  ExpectRefusal(Args({"--metrics-address=" + address}), 4, "--metrics-address " + address);
  ExpectRefusal(Args({"--http-address=" + address}), 4, "--http-address " + address);
  close(fd);
}

TEST(ServeTest, SaysItsPortsAndStopsAsAsked) {
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    const auto file = std::filesystem::path(testing::TempDir()) /
                      ("ports" + std::to_string(getpid()) + "." + std::to_string(signal));
    std::ofstream(file) << "stale";
    Program program(Args({"--port-file=" + file.string()}));
    const std::string ready = program.AwaitReady();
    std::ifstream stream(file);
    const auto ports = nlohmann::json::parse(stream);
    EXPECT_THAT(ready, AllOf(HasSubstr(":" + ports.at("grpc").dump()),
                             HasSubstr(":" + ports.at("metrics").dump() + "/metrics")));
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 0) << program.errors();
    std::filesystem::remove(file);
  }
}

TEST(ServeTest, SignalsWithoutAMeaningEndNothing) {
  Program program(Args({}));
  EXPECT_THAT(program.AwaitReady(), HasSubstr("serving"));
  program.Signal(SIGUSR1);
  program.Signal(SIGUSR2);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0) << program.errors();
}

// Returns true if `signal` is in the signal set `name` of the file /proc/PID/status.
bool HasSignal(const Program& program, const std::string& name, int signal) {
  std::ifstream file("/proc/" + std::to_string(program.pid()) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    return std::stoull(line.substr(name.size() + 1), nullptr, 16) >> (signal - 1) & 1;
  }
  ADD_FAILURE() << name;
  return false;
}

TEST(ServeTest, ASighupThatTheParentIgnoresStaysIgnored) {
  // A program that is started with nohup inherits the setting to ignore SIGHUP. The test sets the
  // same for the server.
  const auto before = std::signal(SIGHUP, SIG_IGN);
  Program program(Args({}));
  std::signal(SIGHUP, before);
  EXPECT_THAT(program.AwaitReady(), HasSubstr("serving"));
  EXPECT_TRUE(HasSignal(program, "SigIgn", SIGHUP));
  EXPECT_FALSE(HasSignal(program, "SigBlk", SIGHUP));
  EXPECT_TRUE(HasSignal(program, "SigBlk", SIGQUIT));
  program.Signal(SIGHUP);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

// Returns the number of threads of a server that is ready.
int64_t ThreadsOf(const Program& program) {
  const std::string tasks = "/proc/" + std::to_string(program.pid()) + "/task";
  return std::distance(std::filesystem::directory_iterator(tasks), {});
}

// Checks that the threads that load the model end. If they stayed, OpenMP would have too many
// threads, and the engine's idle threads would hardly spin.
TEST(ServeTest, LoadingLeavesNoneOfItsThreadsBehind) {
  constexpr int kHelpers = 23;
  Program alone(Args({"--threads=1"})), helped(Args({"--threads=" + std::to_string(kHelpers + 1)}));
  ASSERT_THAT(alone.AwaitReady(), HasSubstr("serving"));
  ASSERT_THAT(helped.AwaitReady(), HasSubstr("serving"));
  EXPECT_LT(ThreadsOf(helped), ThreadsOf(alone) + kHelpers / 2);
}

TEST(ServeTest, PinningWhileLoadingPinsNoLaterThread) {
  Program program(Args({"--threads=2", "--pin-threads"}));
  ASSERT_THAT(program.AwaitReady(), HasSubstr("serving"));
  cpu_set_t ours, its;
  ASSERT_EQ(sched_getaffinity(0, sizeof(ours), &ours), 0);
  ASSERT_EQ(sched_getaffinity(program.pid(), sizeof(its), &its), 0);
  EXPECT_TRUE(CPU_EQUAL(&ours, &its));
}

TEST(ServeTest, ThreadsThatAreWokenInterruptNoStep) {
  Program program(Args({}));
  ASSERT_THAT(program.AwaitReady(), HasSubstr("serving"));
  EXPECT_EQ(sched_getscheduler(program.pid()), SCHED_BATCH);
}

TEST(ServeTest, ServesOnWhenNothingReadsWhatItPrints) {
  Program program(Args({}));
  program.AwaitReady();
  program.StopReading();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST(ServeTest, OutputThatCannotBeWrittenIsAnExitCode) {
  const std::string program = std::string(INCIPIT_BINARY_DIR) + "/incipit";
  for (const std::string arguments : {"serve --help", "--help", "--version"}) {
    const int status = std::system((program + " " + arguments + " >/dev/full 2>&1").c_str());
    ASSERT_TRUE(WIFEXITED(status)) << arguments;
    EXPECT_EQ(WEXITSTATUS(status), 1) << arguments;
  }
}

TEST(ServeTest, AFileConfiguresAndAFlagWins) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("serve" + std::to_string(getpid()) + ".yaml");
  std::ofstream(file) << "model: " << kModel
                      << "\nmetrics-address: 127.0.0.1:0\naddress: nowhere\n";
  ExpectRefusal({"--config", file.string()}, 2, ":3: --address \"nowhere\" is not an address");
  std::ofstream(file) << "model: " << kModel
                      << "\nmetrics-address: 127.0.0.1:0\naddress: 203.0.113.1:1\nkv-blocks: 64\n";
  Program program({"--config", file.string(), "--address=127.0.0.1:0"});
  EXPECT_THAT(program.AwaitReady(), HasSubstr("127.0.0.1"));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0) << program.errors();
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace incipit
