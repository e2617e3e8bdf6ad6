// Tests the sets of CPUs on which the threads of a CPU backend may run.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_options.h"

namespace incipit {
namespace {

int CpusOfThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return CPU_COUNT(&set);
}

// Returns the number of CPUs on which a thread may run after it has called Backend::Upload.
int CpusAfterUpload(const CpuOptions& options) {
  int cpus = 0;
  std::thread([&] {
    const auto backend = CreateCpuBackend(options);
    ASSERT_TRUE(backend.ok());
    const std::vector<int32_t> begin = {0};
    (*backend)->Upload({.token_begin = begin, .block_begin = begin}, {});
    cpus = CpusOfThisThread();
  }).join();
  return cpus;
}

TEST(PinningTest, TheThreadThatDrivesAPinningBackendStaysOnOneCpu) {
  const int before = CpusOfThisThread();
  CpuOptions options;
  options.num_threads = 2;
  EXPECT_EQ(CpusAfterUpload(options), before);
  options.pin_threads = true;
  EXPECT_EQ(CpusAfterUpload(options), 1);
  EXPECT_EQ(CpusOfThisThread(), before);  // only the thread of the backend is pinned
}

}  // namespace
}  // namespace incipit
