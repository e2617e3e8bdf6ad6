// Implements the functions of kernels/cuda/device/device.h on the CPU. The functions have the same
// effects as on a GPU, and also check their arguments. Only kernels/cuda/device/device.h includes
// this file.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/emulator/calls.h"

#define INCIPIT_DEVICE inline
#define INCIPIT_UNROLL
#define INCIPIT_KEEP_LOOP

namespace incipit::dev {

using emulator::Here;
using emulator::Site;

struct bf16 {
  uint16_t bits;
};
struct alignas(8) Vec2 {
  uint32_t word[2];
};
struct alignas(16) Vec4 {
  uint32_t word[4];
};

// ---- identity of the running thread
inline int Thread() { return emulator::Running().thread; }
inline int Lane() { return emulator::Running().thread & 31; }
inline int Warp(Site site = Here()) { return emulator::WarpNumber(site); }
inline int Block() { return emulator::Running().block; }
inline int NumBlocks() { return emulator::Running().num_blocks; }

// ---- loads and stores of shared and global memory
inline char* SharedMemory() { return emulator::Running().shared; }
template <class T>
T LoadShared(const T* address, Site site = Here()) {
  emulator::TouchShared(address, sizeof(T), emulator::Access::kRead, site);
  return *address;
}
template <class T>
void StoreShared(T* address, T value, Site site = Here()) {
  emulator::TouchShared(address, sizeof(T), emulator::Access::kWrite, site);
  *address = value;
}
template <class T>
T LoadGlobal(const T* address, Site site = Here()) {
  emulator::TouchGlobal(address, sizeof(T), emulator::Access::kRead, site);
  return *address;
}
template <class T>
void StoreGlobal(T* address, T value, Site site = Here()) {
  emulator::TouchGlobal(address, sizeof(T), emulator::Access::kWrite, site);
  *address = value;
}
template <class T>
T LoadConstant(const T* address, Site site = Here()) {
  emulator::TouchGlobal(address, sizeof(T), emulator::Access::kConstant, site);
  return *address;
}

// ---- barriers and votes
inline void SyncBlock(Site site = Here()) { emulator::SyncBlock(site); }
inline void SyncThreads(int id, int num_threads, Site site = Here()) {
  emulator::SyncThreads(id, num_threads, site);
}
inline void SyncWarp(Site site = Here()) { emulator::SyncWarp(site); }
inline uint32_t BallotWarp(bool vote, Site site = Here()) { return emulator::Ballot(vote, site); }

// ---- exchange of 4-byte and 8-byte values between the lanes of a warp
template <class T>
T ShuffleFrom(T value, int lane, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = emulator::Shuffle(bits, lane, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T ShuffleXorWarp(T value, int mask, Site site = Here()) {
  return ShuffleFrom(value, (Lane() ^ mask) & 31, site);
}
template <class T>
T ShuffleWarp(T value, int lane, Site site = Here()) {
  return ShuffleFrom(value, lane & 31, site);
}
template <class T>
T ShuffleUpWarp(T value, int distance, Site site = Here()) {
  return ShuffleFrom(value, Lane() >= distance ? Lane() - distance : Lane(), site);
}

// ---- 16-byte copies to shared memory
inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(static_cast<const char*>(shared) - SharedMemory());
}
inline void CopyAsync16(void* shared, const void* global, int bytes = 16, Site site = Here()) {
  emulator::CopyAsync16(shared, global, bytes, site);
}
inline void CommitCopies() { emulator::CommitCopies(); }
template <int kLeft>
void WaitCopies() {
  emulator::WaitCopies(kLeft);
}

// ---- mbarriers: barriers in shared memory that count arrivals of threads and copied bytes
using Barrier = uint64_t;
inline void InitBarrier(Barrier* barrier, int num_arrivals, Site site = Here()) {
  emulator::InitBarrier(barrier, num_arrivals, site);
}
inline void FenceBarriers() { emulator::FenceBarriers(); }
inline void Arrive(Barrier* barrier, Site site = Here()) { emulator::Arrive(barrier, 0, site); }
inline void ArriveExpecting(Barrier* barrier, uint32_t bytes, Site site = Here()) {
  emulator::Arrive(barrier, bytes, site);
}
inline void WaitBarrier(Barrier* barrier, uint32_t parity, Site site = Here()) {
  emulator::WaitBarrier(barrier, parity, site);
}
enum class Reuse : uint8_t { kNone, kSome };
template <Reuse kReuse = Reuse::kSome>
void CopyBulk(void* shared, const void* global, uint32_t bytes, Barrier* barrier,
              Site site = Here()) {
  emulator::CopyBulk(shared, global, bytes, barrier, site);
}
inline void FenceBulkGlobal() { emulator::FenceBulk(emulator::Memory::kGlobal); }
inline void FenceBulkShared() { emulator::FenceBulk(emulator::Memory::kShared); }

// ---- tensor instructions
inline void LoadMatricesWarp(uint32_t (&words)[4], const void* row, Site site = Here()) {
  emulator::LoadMatrices(words, row, false, site);
}
inline void LoadMatricesTransposedWarp(uint32_t (&words)[4], const void* row, Site site = Here()) {
  emulator::LoadMatrices(words, row, true, site);
}
inline void MultiplyAddWarp(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                            Site site = Here()) {
  emulator::MultiplyAdd(sums, a, b0, b1, site);
}

// ---- matrix product instructions of a warpgroup (four warps)
template <int kBlocks>
void FenceMultiplies(float (&sums)[kBlocks][4], Site site = Here()) {
  emulator::FenceMultiplies({&sums[0][0], kBlocks}, site);
}
template <int kBlocks>
void MultiplyAddWarpgroup(float (&sums)[kBlocks][4], const char* a, const char* b,
                          Site site = Here()) {
  static_assert(kBlocks == 16 || kBlocks == 24);
  emulator::MultiplyAddWarpgroup({&sums[0][0], kBlocks}, a, b, site);
}
inline void CommitMultiplies(Site site = Here()) { emulator::CommitMultiplies(site); }
template <int kLeft>
void WaitMultiplies(Site site = Here()) {
  emulator::WaitMultiplies(kLeft, site);
}
template <int kBlocks>
void EndMultiplies(float (&sums)[kBlocks][4], Site site = Here()) {
  emulator::EndMultiplies({&sums[0][0], kBlocks}, site);
}
template <int kRegisters>
void GiveRegisters() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
template <int kRegisters>
void TakeRegisters() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}

// ---- order between a kernel and the other kernels of its stream
inline void WaitForEarlierKernels(Site site = Here()) { emulator::WaitForEarlierKernels(site); }
inline void LetNextKernelStart() { emulator::LetNextKernelStart(); }

// ---- clusters of blocks
inline int ClusterRank() { return emulator::Running().cluster_rank; }
inline void SyncCluster(Site site = Here()) { emulator::SyncCluster(site); }
inline void ArriveCluster(Site site = Here()) { emulator::ArriveCluster(site); }
inline void WaitCluster(Site site = Here()) { emulator::WaitCluster(site); }
template <class T>
T LoadCluster(const T* shared, int rank, Site site = Here()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
  return *static_cast<const T*>(emulator::ReadCluster(shared, sizeof(T), rank, site));
}

// ---- atomic operations
template <class T>
T AddShared(T* address, T value, Site site) {
  emulator::TouchShared(address, sizeof(T), emulator::Access::kAtomic, site);
  const T before = *address;
  *address = before + value;
  return before;
}
inline uint32_t AtomicAddShared(uint32_t* address, uint32_t value, Site site = Here()) {
  return AddShared(address, value, site);
}
inline uint64_t AtomicAddShared(uint64_t* address, uint64_t value, Site site = Here()) {
  return AddShared(address, value, site);
}
inline uint32_t AtomicMaxShared(uint32_t* address, uint32_t value, Site site = Here()) {
  emulator::TouchShared(address, sizeof(uint32_t), emulator::Access::kAtomic, site);
  const uint32_t before = *address;
  if (value > before) *address = value;
  return before;
}
inline uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value, Site site = Here()) {
  return emulator::AtomicAddGlobal(address, value, site);
}

// ---- conversions and arithmetic
inline int Fresh(int number) { return number; }
template <class To, class From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(to));
  return to;
}
inline float ToFloat(bf16 value) { return BitCast<float>(static_cast<uint32_t>(value.bits) << 16); }
inline float LowFloat(uint32_t pair) { return BitCast<float>(pair << 16); }
inline float HighFloat(uint32_t pair) { return BitCast<float>(pair & 0xFFFF0000); }
inline bf16 ToBF16(float value) {
  const auto bits = BitCast<uint32_t>(value);
  // A GPU converts every NaN to the bf16 value 0x7FFF.
  if (value != value) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
inline uint32_t PackBF16(float low, float high) {
  return static_cast<uint32_t>(ToBF16(high).bits) << 16 | ToBF16(low).bits;
}
inline float FlushSubnormal(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}
inline float Exp2(float x) { return FlushSubnormal(std::exp2(FlushSubnormal(x))); }
inline float Reciprocal(float x) {
  const float flushed = FlushSubnormal(x);
  if (flushed == 0) return std::copysign(HUGE_VALF, flushed);
  return FlushSubnormal(1.0F / flushed);
}
inline float Add(float a, float b) { return a + b; }
inline float Multiply(float a, float b) { return a * b; }
inline float Divide(float a, float b) {
  if (b == 0) return a == 0 || a != a ? NAN : std::copysign(HUGE_VALF, a) * std::copysign(1.0F, b);
  return a / b;
}
inline float Fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float SquareRoot(float x) { return std::sqrt(x); }
inline double Add(double a, double b) { return a + b; }
inline double Multiply(double a, double b) { return a * b; }
inline float Max(float a, float b) { return std::fmax(a, b); }
inline uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}
inline int CountLeadingZeros(uint32_t x) { return std::countl_zero(x); }
inline int CountLeadingZeros(uint64_t x) { return std::countl_zero(x); }
inline int CountBits(uint32_t x) { return std::popcount(x); }

}  // namespace incipit::dev
