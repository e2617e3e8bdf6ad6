// Tests the runtime over the emulated device: the order of operations, graphs, and errors on
// misuse.
#include "kernels/cuda/runtime/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "kernels/emulator/runtime/launch.h"

namespace incipit::cuda {
namespace {

Memory Allocated(Place place, size_t bytes) {
  auto memory = Memory::Allocate(place, bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

struct AddOne {
  static constexpr int kThreads = 32, kSharedBytes = 0, kBlocksPerSm = 1;
  struct Args {
    const int* from;
    int* to;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    if (dev::Thread() == 0) dev::StoreGlobal(args.to, dev::LoadGlobal(args.from) + 1);
  }
};

class RuntimeTest : public testing::Test {
 protected:
  RuntimeTest()
      : stream_(*Stream::Create()),
        host_(Allocated(Place::kPinned, kBytes)),
        device_(Allocated(Place::kDevice, kBytes)),
        back_(Allocated(Place::kPinned, kBytes)) {}

  static constexpr size_t kBytes = 64;
  Stream stream_;
  Memory host_, device_, back_;
};

TEST_F(RuntimeTest, MemoryIsZeroAtTheStart) {
  for (size_t i = 0; i < kBytes; ++i) EXPECT_EQ(device_.as<uint8_t>()[i], 0);
}

TEST_F(RuntimeTest, ACopyReadsWhatItsSourceHoldsWhenItRuns) {
  host_.as<int>()[0] = 1;
  stream_.Copy(device_.data(), host_.data(), kBytes);
  host_.as<int>()[0] = 2;  // changes the source of the copy before the copy has run
  stream_.Copy(back_.data(), device_.data(), kBytes);
  ASSERT_TRUE(stream_.Wait().ok());
  EXPECT_EQ(back_.as<int>()[0], 2);
}

TEST_F(RuntimeTest, AGraphRunsWhatWasRecordedAgainWithTheSamePointers) {
  Graph::Begin(stream_);
  stream_.Copy(device_.data(), host_.data(), kBytes);
  stream_.Copy(back_.data(), device_.data(), kBytes);
  auto graph = Graph::End(stream_);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(stream_.Wait().ok());
  EXPECT_EQ(back_.as<int>()[0], 0);  // the copies are recorded and have not run
  for (const int value : {7, 8}) {
    host_.as<int>()[0] = value;
    graph->Launch(stream_);
    ASSERT_TRUE(stream_.Wait().ok());
    EXPECT_EQ(back_.as<int>()[0], value);
  }
}

// Plants a mistake: the graph was recorded with memory that has been freed since.
TEST_F(RuntimeTest, AStalePointerInAGraphIsFound) {
  Graph::Begin(stream_);
  {
    const Memory gone = Allocated(Place::kPinned, kBytes);
    stream_.Copy(device_.data(), gone.data(), kBytes);
  }
  auto graph = Graph::End(stream_);
  ASSERT_TRUE(graph.ok());
  graph->Launch(stream_);
  const absl::Status status = stream_.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("not allocated"), std::string::npos) << status;
  // What went wrong once stays so.
  EXPECT_FALSE(stream_.Wait().ok());
}

// The same, of a kernel's arguments.
TEST_F(RuntimeTest, AStalePointerInArgumentsOfAGraphIsFound) {
  Graph::Begin(stream_);
  {
    const Memory gone = Allocated(Place::kDevice, kBytes);
    Launch<AddOne>(stream_, {}, {.from = gone.as<int>(), .to = device_.as<int>()});
  }
  auto graph = Graph::End(stream_);
  ASSERT_TRUE(graph.ok());
  graph->Launch(stream_);
  const absl::Status status = stream_.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("accesses 4 bytes of global memory that are not allocated"),
            std::string::npos)
      << status;
}

TEST_F(RuntimeTest, AKernelThatGoesBeyondItsMemoryIsFound) {
  constexpr int kInts = kBytes / sizeof(int);
  Launch<AddOne>(stream_, {}, {.from = host_.as<int>(), .to = device_.as<int>() + kInts - 1});
  EXPECT_TRUE(stream_.Wait().ok());
  Launch<AddOne>(stream_, {}, {.from = host_.as<int>(), .to = device_.as<int>() + kInts});
  EXPECT_EQ(stream_.Wait().code(), absl::StatusCode::kInternal);
}

// Plants a mistake: the source of the copy is an array on the stack of the host.
TEST_F(RuntimeTest, ACopyFromUnknownMemoryIsFound) {
  const int64_t on_the_stack[8] = {};
  stream_.Copy(device_.data(), on_the_stack, kBytes);
  EXPECT_EQ(stream_.Wait().code(), absl::StatusCode::kInternal);
}

TEST_F(RuntimeTest, AnEventWaitsForWhatWasBeforeIt) {
  auto event = Event::Create();
  ASSERT_TRUE(event.ok());
  EXPECT_TRUE(event->Wait().ok());
  host_.as<int>()[0] = 5;
  stream_.Copy(back_.data(), host_.data(), kBytes);
  event->Record(stream_);
  ASSERT_TRUE(event->Wait().ok());
  EXPECT_EQ(back_.as<int>()[0], 5);
}

TEST(RuntimeMemoryTest, TooMuchIsRefusedWithBothNumbers) {
  const size_t free = FreeDeviceBytes();
  const auto memory = Memory::Allocate(Place::kDevice, free + 1);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().message().find(std::to_string(free)), std::string::npos);
}

TEST(RuntimeMemoryTest, ADeviceThatIsNotThereIsUnavailable) {
  EXPECT_EQ(OpenDevice(1).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace incipit::cuda
