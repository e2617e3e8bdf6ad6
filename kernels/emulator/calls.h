// What a kernel's thread asks of the emulator: the functions of kernels/emulator/device.h are thin
// over these. Called from a thread of a kernel only.
#pragma once

#include <cstdint>
#include <cstring>

namespace incipit::emulator {

// Where in the kernel's source something was asked. As a default argument: where the caller is.
struct Site {
  const char* file = "";
  int line = 0;
};
inline bool operator==(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}
constexpr Site Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

// Who is running.
struct Place {
  int thread = 0;  // of its block
  int block = 0, num_blocks = 1;
  int cluster_rank = 0;
  char* shared = nullptr;
  int shared_bytes = 0;
};
extern constinit thread_local Place* g_running;
inline const Place& Running() { return *g_running; }

// ---- memory: checks alone, the caller accesses it afterwards
enum class Access : uint8_t { kRead, kWrite, kAtomic, kConstant, kBulkRead };
void TouchShared(const void* address, int bytes, Access access, Site site);
void TouchGlobal(const void* address, int bytes, Access access, Site site);
uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value, Site site);

// ---- threads meet: the lanes of a warp at one place of the source
// The number of the running thread's warp.
int WarpNumber(Site site);
void SyncBlock(Site site);
void SyncThreads(int id, int num_threads, Site site);
void SyncWarp(Site site);
uint32_t Ballot(bool vote, Site site);
// The value of lane `from`, which each lane names for itself.
uint64_t Shuffle(uint64_t value, int from, Site site);

// ---- copies that land later
void CopyAsync16(void* shared, const void* global, int bytes, Site site);
void CommitCopies();
void WaitCopies(int left);
void InitBarrier(uint64_t* barrier, int num_arrivals, Site site);
void FenceBarriers();
void Arrive(uint64_t* barrier, uint32_t expected_bytes, Site site);
void WaitBarrier(uint64_t* barrier, uint32_t parity, Site site);
enum class Memory : uint8_t { kGlobal, kShared };
void FenceBulk(Memory memory);
void CopyBulk(void* shared, const void* global, uint32_t bytes, uint64_t* barrier, Site site);

// ---- tensor instructions
void LoadMatrices(uint32_t* words, const void* row, bool transposed, Site site);
void MultiplyAdd(float* sums, const uint32_t* a, uint32_t b0, uint32_t b1, Site site);

// ---- tensor instructions of a warpgroup
struct LaneSums {
  float* values = nullptr;  // [num_blocks][4]
  int num_blocks = 0;       // of 8 columns
};
void FenceMultiplies(const LaneSums& sums, Site site);
void MultiplyAddWarpgroup(const LaneSums& sums, const char* a, const char* b, Site site);
void CommitMultiplies(Site site);
void WaitMultiplies(int left, Site site);
void EndMultiplies(const LaneSums& sums, Site site);

// ---- other kernels and other blocks
void WaitForEarlierKernels(Site site);
void LetNextKernelStart();
void SyncCluster(Site site);
void ArriveCluster(Site site);
void WaitCluster(Site site);
// Checks a load; where the bytes are.
const void* ReadCluster(const void* shared, int bytes, int rank, Site site);

}  // namespace incipit::emulator
