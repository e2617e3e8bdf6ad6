// Declares the emulator's functions that kernels/emulator/device.h calls: memory accesses,
// barriers, copies and matrix products.
#pragma once

#include <cstdint>
#include <cstring>

namespace incipit::emulator {

// A line of source code. By default, a parameter `Site site = Here()` is the source line of the
// call.
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

// The identity of the running thread.
struct Place {
  int thread = 0;  // index of the CUDA thread within its thread block
  int block = 0, num_blocks = 1;
  int cluster_rank = 0;
  char* shared = nullptr;
  int shared_bytes = 0;
};
extern constinit thread_local Place* g_running;
inline const Place& Running() { return *g_running; }

// ---- memory
enum class Access : uint8_t { kRead, kWrite, kAtomic, kConstant, kBulkRead };
// Checks an access of `bytes` bytes of shared memory. Does not read or write the bytes.
void TouchShared(const void* address, int bytes, Access access, Site site);
// Checks an access of `bytes` bytes of global memory. Does not read or write the bytes.
void TouchGlobal(const void* address, int bytes, Access access, Site site);
uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value, Site site);

// ---- operations of a warp or of a thread block. All 32 lanes of a warp must call each of these
// functions from the same source line.

// Returns the index of the calling thread's warp within its thread block.
int WarpNumber(Site site);
void SyncBlock(Site site);
void SyncThreads(int id, int num_threads, Site site);
void SyncWarp(Site site);
uint32_t Ballot(bool vote, Site site);
// Returns the `value` with which lane `from` of the same warp called Shuffle().
uint64_t Shuffle(uint64_t value, int from, Site site);

// ---- asynchronous copies to shared memory
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

// ---- matrix product instructions of a warpgroup (four warps)
struct LaneSums {
  float* values = nullptr;  // shape [num_blocks][4]
  int num_blocks = 0;       // number of columns of the matrix product, divided by 8
};
void FenceMultiplies(const LaneSums& sums, Site site);
void MultiplyAddWarpgroup(const LaneSums& sums, const char* a, const char* b, Site site);
void CommitMultiplies(Site site);
void WaitMultiplies(int left, Site site);
void EndMultiplies(const LaneSums& sums, Site site);

// ---- waiting for other kernels, and for other thread blocks of the cluster
void WaitForEarlierKernels(Site site);
void LetNextKernelStart();
void SyncCluster(Site site);
void ArriveCluster(Site site);
void WaitCluster(Site site);
// Returns the address that corresponds to `shared` in the shared memory of thread block `rank` of
// the cluster. `shared` is an address in the shared memory of the calling thread block. Checks that
// the thread may read `bytes` bytes at the returned address.
const void* ReadCluster(const void* shared, int bytes, int rank, Site site);

}  // namespace incipit::emulator
