#include "kernels/cpu/host_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_path.h"

namespace incipit {
namespace {

// Replaces the folders /proc and /sys/fs/cgroup by folders of the test.
class HostLimitsTest : public ::testing::Test {
 protected:
  HostLimitsTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = TempPath(std::string("host_limits_") + test->name());
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:  4000 kB\n");
  }
  ~HostLimitsTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  HostPaths paths() const { return {.proc = root_ + "/proc", .cgroup = root_ + "/cgroup"}; }

 private:
  std::string root_;
};

TEST_F(HostLimitsTest, WithoutControlGroupsWhatTheMachineHasIsAvailable) {
  EXPECT_EQ(AvailableHostBytes(paths()), 4000u * 1024);
}

TEST_F(HostLimitsTest, TheTightestGroupAboveTheProcessCounts) {
  Write("proc/self/cgroup", "0::/pod/app\n");
  Write("cgroup/pod/app/memory.max", "max\n");
  Write("cgroup/pod/app/memory.current", "1000\n");
  Write("cgroup/pod/memory.max", "100000\n");
  Write("cgroup/pod/memory.current", "60000\n");
  Write("cgroup/pod/memory.stat", "anon 40000\ninactive_file 15000\n");
  EXPECT_EQ(AvailableHostBytes(paths()), 100000u - (60000 - 15000));
}

TEST_F(HostLimitsTest, VersionOneGroupsCountToo) {
  Write("proc/self/cgroup", "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/\n");
  // A process in a container finds its limit in this folder, without the path /docker/1.
  Write("cgroup/memory/memory.limit_in_bytes", "50000\n");
  Write("cgroup/memory/memory.usage_in_bytes", "20000\n");
  EXPECT_EQ(AvailableHostBytes(paths()), 30000u);
}

TEST_F(HostLimitsTest, AGroupOverItsLimitLeavesNothing) {
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", "1000\n");
  Write("cgroup/memory.current", "2000\n");
  EXPECT_EQ(AvailableHostBytes(paths()), 0u);
}

TEST_F(HostLimitsTest, ACpuQuotaIsRoundedDownToWholeCpusButNotToNone) {
  Write("proc/self/cgroup", "0::/app\n");
  Write("cgroup/app/cpu.max", "150000 100000\n");
  EXPECT_EQ(AvailableCpus(paths()), 1);
  Write("cgroup/app/cpu.max", "50000 100000\n");
  EXPECT_EQ(AvailableCpus(paths()), 1);
}

TEST_F(HostLimitsTest, WithoutAQuotaTheAffinityMaskCounts) {
  Write("proc/self/cgroup", "1:cpu:/\n0::/app\n");
  Write("cgroup/app/cpu.max", "max 100000\n");
  Write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_GE(AvailableCpus(paths()), 1);
  Write("cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(AvailableCpus(paths()), 1);
}

}  // namespace
}  // namespace incipit
