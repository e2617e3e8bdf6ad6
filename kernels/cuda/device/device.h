// Defines the machine operations that CUDA kernels may use. Only this file contains PTX and
// compiler intrinsics. Tests compile the same kernels for the CPU with kernels/emulator/device.h,
// which checks memory accesses.
#pragma once

#include <cstdint>

// A kernel is a struct of this form:
//
//   template <class Shape> struct Kernel {
//     static constexpr int kThreads = ..., kSharedBytes = ..., kBlocksPerSm = ...;
//     struct Args { ... };                                // plain data, at most 4,096 bytes
//     static INCIPIT_DEVICE void Run(const Args& args);   // every thread calls Run
//   };

// Rules for kernels:
// - Kernels use only dynamic shared memory (SharedMemory), no __shared__ variables.
// - Kernels access shared and global memory only through the functions of this file, because the
//   emulator checks only these accesses.
// - If the name of a function contains "Warp", all 32 lanes of a warp call the function together.

// Marks a function that host code and device code may call.
#ifdef __CUDACC__
#define INCIPIT_ANYWHERE __host__ __device__
#else
#define INCIPIT_ANYWHERE
#endif

#ifndef __CUDACC__
#include "kernels/emulator/device.h"
#else

#define INCIPIT_DEVICE __device__ __forceinline__
#define INCIPIT_UNROLL _Pragma("unroll")
// Prevents the compiler from unrolling the next loop.
#define INCIPIT_KEEP_LOOP _Pragma("unroll 1")

namespace incipit::dev {

struct bf16 {
  uint16_t bits;
};
struct alignas(8) Vec2 {
  uint32_t word[2];
};
struct alignas(16) Vec4 {
  uint32_t word[4];
};

// Returns the index of the calling thread in its thread block.
INCIPIT_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
INCIPIT_DEVICE int Lane() { return static_cast<int>(threadIdx.x & 31); }
// Returns the index of the calling warp in its thread block. All 32 lanes call Warp together, so
// that the compiler knows that all lanes have the same index.
INCIPIT_DEVICE int Warp() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 5), 0); }
INCIPIT_DEVICE int Block() { return static_cast<int>(blockIdx.x); }
INCIPIT_DEVICE int NumBlocks() { return static_cast<int>(gridDim.x); }

// ---- memory

// Returns the address of the shared memory of the thread block: Kernel::kSharedBytes bytes, aligned
// to 1,024 bytes, not initialised.
INCIPIT_DEVICE char* SharedMemory() {
  extern __shared__ __align__(1024) char memory[];
  return memory;
}
// Loads a value of 1 to 16 bytes from shared memory. REQUIRES: `address` is aligned to the value's
// size.
template <class T>
INCIPIT_DEVICE T LoadShared(const T* address) {
  return *address;
}
template <class T>
INCIPIT_DEVICE void StoreShared(T* address, T value) {
  *address = value;
}
template <class T>
INCIPIT_DEVICE T LoadGlobal(const T* address) {
  return *address;
}
template <class T>
INCIPIT_DEVICE void StoreGlobal(T* address, T value) {
  *address = value;
}
// Loads a value from global memory that no kernel writes while this kernel runs, for example a
// weight.
template <class T>
INCIPIT_DEVICE T LoadConstant(const T* address) {
  return __ldg(address);
}
template <>
INCIPIT_DEVICE Vec4 LoadConstant(const Vec4* address) {
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(address));
  return {{v.x, v.y, v.z, v.w}};
}
template <>
INCIPIT_DEVICE Vec2 LoadConstant(const Vec2* address) {
  const uint2 v = __ldg(reinterpret_cast<const uint2*>(address));
  return {{v.x, v.y}};
}
template <>
INCIPIT_DEVICE bf16 LoadConstant(const bf16* address) {
  return {__ldg(reinterpret_cast<const unsigned short*>(address))};
}

// Waits until all threads of the thread block have called SyncBlock.
INCIPIT_DEVICE void SyncBlock() { __syncthreads(); }
// Waits until `num_threads` threads (all lanes of some warps) have called SyncThreads with the same
// `id`. REQUIRES: `id` is in [1, 16).
INCIPIT_DEVICE void SyncThreads(int id, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}
INCIPIT_DEVICE void SyncWarp() { __syncwarp(); }
INCIPIT_DEVICE uint32_t BallotWarp(bool vote) { return __ballot_sync(~0u, vote); }

// Returns the `value` of the lane whose index is the calling lane's index XOR `mask`. `value` has 4
// or 8 bytes.
template <class T>
INCIPIT_DEVICE T ShuffleXorWarp(T value, int mask) {
  return __shfl_xor_sync(~0u, value, mask);
}
template <class T>
INCIPIT_DEVICE T ShuffleWarp(T value, int lane) {
  return __shfl_sync(~0u, value, lane);
}
// Returns the `value` of the lane whose index is lower by `distance` than the index of the calling
// lane. If there is no such lane, returns the calling lane's own `value`.
template <class T>
INCIPIT_DEVICE T ShuffleUpWarp(T value, int distance) {
  return __shfl_up_sync(~0u, value, distance);
}

// Converts the pointer `shared` to the 32-bit shared-memory address that PTX instructions use.
INCIPIT_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// Starts an asynchronous write of 16 bytes to `shared`: the first `bytes` bytes are copied from
// `global`, the others are zero.
INCIPIT_DEVICE void CopyAsync16(void* shared, const void* global, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
INCIPIT_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kLeft` groups of this thread's asynchronous copies are unfinished. Each call
// of CommitCopies ends a group. Other threads may read the copied bytes only after a barrier.
template <int kLeft>
INCIPIT_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// A barrier (mbarrier) in shared memory. A phase of the barrier ends when all expected threads have
// arrived and all expected bytes have been copied; then the next phase begins.
using Barrier = uint64_t;
// Initialises `barrier` so that each phase ends after `num_arrivals` arrivals. REQUIRES: the
// calling thread then calls FenceBarriers, and all threads call SyncBlock before they use
// `barrier`.
INCIPIT_DEVICE void InitBarrier(Barrier* barrier, int num_arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(num_arrivals)
               : "memory");
}
INCIPIT_DEVICE void FenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
INCIPIT_DEVICE void Arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Arrives at `barrier`. The current phase of the barrier then ends only after `bytes` more bytes
// have been copied. REQUIRES: the caller then starts bulk copies of these bytes.
INCIPIT_DEVICE void ArriveExpecting(Barrier* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// Waits while the current phase of `barrier` has parity `parity`. The first phase has parity 0, the
// second phase 1, the third phase 0, and so on.
INCIPIT_DEVICE void WaitBarrier(Barrier* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN_%=:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN_%=;\n}" ::"r"(
          SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
// States whether a kernel will read the source of a bulk copy again. With kNone (no), the L2 cache
// evicts the source before other data. kSome: yes.
enum class Reuse : uint8_t { kNone, kSome };
// Starts an asynchronous copy of `bytes` bytes from global to shared memory. `barrier` counts the
// copied bytes. REQUIRES: `bytes` is a multiple of 16; both addresses are aligned to 16 bytes.
template <Reuse kReuse = Reuse::kSome>
INCIPIT_DEVICE void CopyBulk(void* shared, const void* global, uint32_t bytes, Barrier* barrier) {
  if constexpr (kReuse == Reuse::kNone) {
    constexpr uint64_t kEvictFirst = 0x12F0000000000000;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(SharedAddress(shared)),
        "l"(global), "r"(bytes), "r"(SharedAddress(barrier)), "l"(kEvictFirst)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(SharedAddress(shared)),
        "l"(global), "r"(bytes), "r"(SharedAddress(barrier))
        : "memory");
  }
}
// Makes earlier stores to global memory visible to later bulk copies of this thread. REQUIRES: if
// an earlier kernel stored the data, the thread has called WaitForEarlierKernels.
INCIPIT_DEVICE void FenceBulkGlobal() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// Orders this thread's earlier accesses to shared memory before its later bulk copies and
// MultiplyAddWarpgroup calls. Does not order accesses to global memory.
INCIPIT_DEVICE void FenceBulkShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- tensor instructions

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Each lane passes the address of
// one matrix row: lanes [0, 8) pass the rows of matrix 0, lanes [8, 16) the rows of matrix 1, and
// so on. words[i] receives two elements of matrix i, as the PTX instruction ldmatrix defines.
INCIPIT_DEVICE void LoadMatricesWarp(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// Does the same as LoadMatricesWarp, but transposes each matrix.
INCIPIT_DEVICE void LoadMatricesTransposedWarp(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// Computes sums[16 x 8] += a[16 x 16] * b[16 x 8] on bf16 elements. The PTX instruction
// mma.m16n8k16 defines which elements each lane holds.
INCIPIT_DEVICE void MultiplyAddWarp(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- tensor instructions of a warpgroup (four consecutive warps). The instructions run
// asynchronously; their results are valid only after WaitMultiplies.
#define INCIPIT_FLOATS(s, i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define INCIPIT_FLOATS8(s, i)                                                       \
  INCIPIT_FLOATS(s, i), INCIPIT_FLOATS(s, i + 1), INCIPIT_FLOATS(s, i + 2),         \
      INCIPIT_FLOATS(s, i + 3), INCIPIT_FLOATS(s, i + 4), INCIPIT_FLOATS(s, i + 5), \
      INCIPIT_FLOATS(s, i + 6), INCIPIT_FLOATS(s, i + 7)
// Prevents the compiler from moving accesses to `sums` across a call of KeepInPlace.
template <int kBlocks>
INCIPIT_DEVICE void KeepInPlace(float (&sums)[kBlocks][4]) {
  INCIPIT_UNROLL
  for (int i = 0; i < kBlocks; ++i) asm volatile("" : INCIPIT_FLOATS(sums, i)::"memory");
}
// Makes changes of `sums` visible to the next MultiplyAddWarpgroup. REQUIRES: called before the
// first MultiplyAddWarpgroup, and again after each change of `sums` by other code.
template <int kBlocks>
INCIPIT_DEVICE void FenceMultiplies(float (&sums)[kBlocks][4]) {
  KeepInPlace(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Returns the descriptor with which a tensor instruction reads `matrix` from shared memory.
// REQUIRES: `matrix` is aligned to 1,024 bytes. Each row has 128 bytes, in the PTX layout "128-byte
// swizzle": 16-byte chunk c of row r is at index c ^ (r % 8).
INCIPIT_DEVICE uint64_t DescribeMatrix(const char* matrix) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32;
  // field of the descriptor that has no effect for rows of 128 bytes
  constexpr uint64_t kUnused = 1 << 16;
  return kSwizzle128 | kEightRows | kUnused | (SharedAddress(matrix) >> 4 & 0x3FFF);
}
// Starts sums[64 x N] += a[64 x 16] * transpose of b[N x 16] on bf16 elements. N is 128 or 192.
// Each of the four warps holds 16 rows of the sums. REQUIRES: `a` and `b` point to row 0 of a
// matrix (see DescribeMatrix), at column 0, 16, 32 or 48.
INCIPIT_DEVICE void MultiplyAddWarpgroup(float (&sums)[16][4], const char* a, const char* b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
      : INCIPIT_FLOATS8(sums, 0), INCIPIT_FLOATS8(sums, 8)
      : "l"(DescribeMatrix(a)), "l"(DescribeMatrix(b))
      : "memory");
}
INCIPIT_DEVICE void MultiplyAddWarpgroup(float (&sums)[24][4], const char* a, const char* b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95}, %96, %97, 1, 1, 1, 0, 0;"
      : INCIPIT_FLOATS8(sums, 0), INCIPIT_FLOATS8(sums, 8), INCIPIT_FLOATS8(sums, 16)
      : "l"(DescribeMatrix(a)), "l"(DescribeMatrix(b))
      : "memory");
}
// Ends a group of MultiplyAddWarpgroup calls: all calls since the previous CommitMultiplies.
INCIPIT_DEVICE void CommitMultiplies() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kLeft` groups of MultiplyAddWarpgroup calls are unfinished. Each call of
// CommitMultiplies ends a group.
template <int kLeft>
INCIPIT_DEVICE void WaitMultiplies() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Waits until all MultiplyAddWarpgroup calls of the warpgroup have finished. The caller may then
// read `sums`.
template <int kBlocks>
INCIPIT_DEVICE void EndMultiplies(float (&sums)[kBlocks][4]) {
  WaitMultiplies<0>();
  KeepInPlace(sums);
}
#undef INCIPIT_FLOATS8
#undef INCIPIT_FLOATS
// Lowers the number of registers of each thread to kRegisters. Other warps can use the released
// registers. REQUIRES: all warps of a warpgroup (four warps) call GiveRegisters.
template <int kRegisters>
INCIPIT_DEVICE void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// Raises the number of registers of each thread to kRegisters, after other warps have released
// enough registers. REQUIRES: all warps of a warpgroup (four warps) call TakeRegisters.
template <int kRegisters>
INCIPIT_DEVICE void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Waits until the earlier kernels of the stream have ended. REQUIRES: called before the kernel
// reads memory that an earlier kernel wrote, and before it writes memory that an earlier kernel
// reads.
INCIPIT_DEVICE void WaitForEarlierKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Allows the next kernel of the stream to start early: when all thread blocks of this kernel have
// called LetNextKernelStart or have ended.
INCIPIT_DEVICE void LetNextKernelStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Returns the index of the calling thread block in its cluster. A cluster is a group of consecutive
// thread blocks that can read each other's shared memory.
INCIPIT_DEVICE int ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
// Waits until all threads of the cluster (a group of thread blocks) have called SyncCluster. Their
// earlier stores to shared memory are then visible to LoadCluster. Does not order accesses to
// global memory.
INCIPIT_DEVICE void SyncCluster() {
  asm volatile(
      "fence.release.sync_restrict::shared::cta.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// Arrives at the barrier of the cluster without waiting. WaitCluster waits for the other threads.
// REQUIRES: the thread does not call LoadCluster between ArriveCluster and WaitCluster.
INCIPIT_DEVICE void ArriveCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// Waits until all threads of the cluster have called ArriveCluster. The loads and stores of these
// threads before ArriveCluster are then complete.
INCIPIT_DEVICE void WaitCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Converts `shared`, an address in the shared memory of this thread block, to the same address in
// the shared memory of another thread block. `rank` is the index of that thread block in the
// cluster.
INCIPIT_DEVICE uint32_t ClusterAddress(const void* shared, int rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote)
               : "r"(SharedAddress(shared)), "r"(rank));
  return remote;
}
INCIPIT_DEVICE uint32_t LoadCluster(const uint32_t* shared, int rank) {
  uint32_t value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(value)
               : "r"(ClusterAddress(shared, rank))
               : "memory");
  return value;
}
INCIPIT_DEVICE Vec4 LoadCluster(const Vec4* shared, int rank) {
  Vec4 value;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
               : "r"(ClusterAddress(shared, rank))
               : "memory");
  return value;
}

// ---- Atomic additions. Only integers are added, because an integer sum does not depend on the
// order of the additions.
INCIPIT_DEVICE uint32_t AtomicAddShared(uint32_t* address, uint32_t value) {
  return atomicAdd(address, value);
}
INCIPIT_DEVICE uint64_t AtomicAddShared(uint64_t* address, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(address), value);
}
INCIPIT_DEVICE uint32_t AtomicMaxShared(uint32_t* address, uint32_t value) {
  return atomicMax(address, value);
}
// Adds `value` to the integer at `address` and returns the old integer. Memory order: acquire and
// release, for all threads of the GPU.
INCIPIT_DEVICE uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(address)), "r"(value)
               : "memory");
  return before;
}

// ---- arithmetic and conversions of numbers
INCIPIT_DEVICE float ToFloat(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
INCIPIT_DEVICE float LowFloat(uint32_t pair) { return __uint_as_float(pair << 16); }
INCIPIT_DEVICE float HighFloat(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000); }
// Returns a 32-bit word with two bf16 numbers: `low` in the lower 16 bits, `high` in the upper 16
// bits. Rounds each number to nearest, ties to even.
INCIPIT_DEVICE uint32_t PackBF16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
INCIPIT_DEVICE bf16 ToBF16(float value) {
  return {static_cast<uint16_t>(PackBF16(value, 0) & 0xFFFF)};
}
// Returns `number`, but hides from the compiler that the result equals `number`. The compiler then
// recomputes values from the result instead of keeping them in registers.
INCIPIT_DEVICE int Fresh(int number) {
  asm volatile("" : "+r"(number));
  return number;
}
template <class To, class From>
INCIPIT_DEVICE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
// Returns 2^x with an error of at most two units in the last place. A subnormal result may become
// zero.
INCIPIT_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Returns 1 / x with an error of at most two units in the last place. A subnormal result may become
// zero.
INCIPIT_DEVICE float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Returns a + b, rounded to nearest. The compiler never fuses the addition with a multiplication.
INCIPIT_DEVICE float Add(float a, float b) { return __fadd_rn(a, b); }
INCIPIT_DEVICE float Multiply(float a, float b) { return __fmul_rn(a, b); }
INCIPIT_DEVICE float Divide(float a, float b) { return __fdiv_rn(a, b); }
INCIPIT_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
INCIPIT_DEVICE float SquareRoot(float x) { return __fsqrt_rn(x); }
INCIPIT_DEVICE double Add(double a, double b) { return __dadd_rn(a, b); }
INCIPIT_DEVICE double Multiply(double a, double b) { return __dmul_rn(a, b); }
// Returns the larger argument. If one argument is a NaN, returns the other argument.
INCIPIT_DEVICE float Max(float a, float b) { return fmaxf(a, b); }
INCIPIT_DEVICE uint64_t MultiplyHigh(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
INCIPIT_DEVICE int CountLeadingZeros(uint32_t x) { return __clz(static_cast<int>(x)); }
INCIPIT_DEVICE int CountLeadingZeros(uint64_t x) { return __clzll(static_cast<long long>(x)); }
INCIPIT_DEVICE int CountBits(uint32_t x) { return __popc(x); }

}  // namespace incipit::dev

#endif
