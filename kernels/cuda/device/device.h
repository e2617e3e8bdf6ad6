// What a kernel may ask of the machine: the only place with PTX and intrinsics. A kernel is a
// struct
//
//   template <class Shape> struct Kernel {
//     static constexpr int kThreads = ..., kSharedBytes = ..., kBlocksPerSm = ...;
//     struct Args { ... };                                // plain data, at most 4 KB
//     static INCIPIT_DEVICE void Run(const Args& args);   // every thread of every block
//   };
//
// and uses nothing of the machine but this namespace, so that one source has two builds: nvcc makes
// machine code for sm_90a of it (this file), any C++ compiler runs it thread by thread on the host
// (kernels/emulator/device.h has the same functions, with checks that no card has).
//
// Rules. Shared memory is dynamic only and read and written through LoadShared and StoreShared,
// global memory through LoadGlobal and StoreGlobal: what is not said here is not checked there.
// "Warp" in a name means that all 32 lanes call it together.
#pragma once

#include <cstdint>

// Of a function that the host calls too: where what lies.
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
#define INCIPIT_KEEP_LOOP _Pragma("unroll 1")  // for what is long

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

// ---- who is running: grids and blocks have one dimension
INCIPIT_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
INCIPIT_DEVICE int Lane() { return static_cast<int>(threadIdx.x & 31); }
// The same for all lanes, and the compiler knows it: all 32 call it together.
INCIPIT_DEVICE int Warp() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 5), 0); }
INCIPIT_DEVICE int Block() { return static_cast<int>(blockIdx.x); }
INCIPIT_DEVICE int NumBlocks() { return static_cast<int>(gridDim.x); }

// ---- memory
// The block's kSharedBytes, aligned to 1,024. Contents are undefined at the start.
INCIPIT_DEVICE char* SharedMemory() {
  extern __shared__ __align__(1024) char memory[];
  return memory;
}
// Of 1 to 16 bytes, aligned to their size.
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
// Of what neither this kernel writes nor one before it that may still run: weights, tables, plans.
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

// ---- barriers and votes
INCIPIT_DEVICE void SyncBlock() { __syncthreads(); }
// Of `num_threads` threads (whole warps) that all name barrier `id`, from 1 to 15.
INCIPIT_DEVICE void SyncThreads(int id, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}
INCIPIT_DEVICE void SyncWarp() { __syncwarp(); }
INCIPIT_DEVICE uint32_t BallotWarp(bool vote) { return __ballot_sync(~0u, vote); }

// ---- lanes of a warp exchange 4 or 8 bytes
template <class T>
INCIPIT_DEVICE T ShuffleXorWarp(T value, int mask) {
  return __shfl_xor_sync(~0u, value, mask);
}
template <class T>
INCIPIT_DEVICE T ShuffleWarp(T value, int lane) {
  return __shfl_sync(~0u, value, lane);
}
// Of the lane `distance` below; a lane without one keeps its own.
template <class T>
INCIPIT_DEVICE T ShuffleUpWarp(T value, int distance) {
  return __shfl_up_sync(~0u, value, distance);
}

// ---- 16-byte copies to shared memory, in groups of the calling thread
INCIPIT_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// The first `bytes` (0 or 16 as a rule) are copied, the rest of the 16 becomes zero.
INCIPIT_DEVICE void CopyAsync16(void* shared, const void* global, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
INCIPIT_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `kLeft` of this thread's latest groups are under way. Others see what was copied
// after a barrier.
template <int kLeft>
INCIPIT_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// ---- mbarriers: 8 bytes of shared memory. A phase ends when the expected number of threads has
// arrived and the expected bytes have come; phases have parity 0, 1, 0, ...
using Barrier = uint64_t;
// By one thread, followed by FenceBarriers and a SyncBlock.
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
// Arrives, and makes this phase wait for `bytes` of bulk copies too. Before the copies.
INCIPIT_DEVICE void ArriveExpecting(Barrier* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// Until the phase of this parity has ended.
INCIPIT_DEVICE void WaitBarrier(Barrier* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN_%=:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN_%=;\n}" ::"r"(
          SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
enum class Reuse : uint8_t { kNone, kSome };  // of a bulk copy's source in L2
// By one thread: `bytes` (a multiple of 16, both sides aligned to 16), counted on `barrier`.
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
// Between ordinary accesses and bulk copies of the same bytes: of global memory, after this thread
// has waited for the kernel that stored what a bulk copy reads; of shared memory, after this thread
// has stored, or copied and waited for, what a bulk copy overwrites or MultiplyAddWarpgroup reads.
// Without a memory's name the fence would wait until all stores of the thread have left the
// multiprocessor.
INCIPIT_DEVICE void FenceBulkGlobal() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
INCIPIT_DEVICE void FenceBulkShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- tensor instructions
// Four 8 x 8 matrices of 16 bits: lane l gives the address of row l % 8 of matrix l / 8 (16 bytes);
// lane l gets elements 2 * (l % 4) and the next of row l / 4 of matrix i in words[i].
INCIPIT_DEVICE void LoadMatricesWarp(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// Each matrix transposed: lane l gets rows 2 * (l % 4) and the next of column l / 4.
INCIPIT_DEVICE void LoadMatricesTransposedWarp(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// sums[16 x 8] += a[16 x 16] * b[16 x 8] of bf16. With g = lane / 4, q = lane % 4: a[0] holds row
// g, columns 2q, 2q + 1; a[1] row g + 8; a[2] row g, columns 2q + 8, + 9; a[3] row g + 8 of those;
// b0 rows 2q, 2q + 1 of column g, b1 rows 2q + 8, + 9; sums[0], [1] row g, columns 2q, 2q + 1,
// sums[2], [3] row g + 8.
INCIPIT_DEVICE void MultiplyAddWarp(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- tensor instructions of a warpgroup: of the warps 4 w .. 4 w + 3, which multiply the same
// things one after the other. They run asynchronously, in groups; until a group has been waited
// for, its sums are nobody's and its operands must stay as they are in shared memory.
#define INCIPIT_FLOATS(s, i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define INCIPIT_FLOATS8(s, i)                                                       \
  INCIPIT_FLOATS(s, i), INCIPIT_FLOATS(s, i + 1), INCIPIT_FLOATS(s, i + 2),         \
      INCIPIT_FLOATS(s, i + 3), INCIPIT_FLOATS(s, i + 4), INCIPIT_FLOATS(s, i + 5), \
      INCIPIT_FLOATS(s, i + 6), INCIPIT_FLOATS(s, i + 7)
// Nothing that uses the sums is moved past it.
template <int kBlocks>
INCIPIT_DEVICE void KeepInPlace(float (&sums)[kBlocks][4]) {
  INCIPIT_UNROLL
  for (int i = 0; i < kBlocks; ++i) asm volatile("" : INCIPIT_FLOATS(sums, i)::"memory");
}
// Before the first multiplication, and after each time that the sums have been touched otherwise.
template <int kBlocks>
INCIPIT_DEVICE void FenceMultiplies(float (&sums)[kBlocks][4]) {
  KeepInPlace(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Of a matrix in rows of 128 bytes, aligned to 1,024, chunk c of 16 bytes of row r at c ^ (r % 8).
INCIPIT_DEVICE uint64_t DescribeMatrix(const char* matrix) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kUnused = 1 << 16;  // between parts of a row that is longer than the swizzle
  return kSwizzle128 | kEightRows | kUnused | (SharedAddress(matrix) >> 4 & 0x3FFF);
}
// sums[64 x N] += a[64 x 16] * b[N x 16]^T of bf16, N = 128 or 192: `a` and `b` are matrices as
// DescribeMatrix says, from an even chunk of their first row on. Warp w of the group has rows
// 16 w .. 16 w + 15, and sums[i] is as MultiplyAddWarp's of columns 8 i .. 8 i + 7.
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
// The multiplications since the last call make a group.
INCIPIT_DEVICE void CommitMultiplies() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most `kLeft` of the latest groups are under way.
template <int kLeft>
INCIPIT_DEVICE void WaitMultiplies() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Until none is: the sums are the caller's.
template <int kBlocks>
INCIPIT_DEVICE void EndMultiplies(float (&sums)[kBlocks][4]) {
  WaitMultiplies<0>();
  KeepInPlace(sums);
}
#undef INCIPIT_FLOATS8
#undef INCIPIT_FLOATS
// By all warps of a warpgroup: from here on each thread has so many registers. Others take what
// some give.
template <int kRegisters>
INCIPIT_DEVICE void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
INCIPIT_DEVICE void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- kernels one after another (programmatic dependent launch)
// Before anything is read that an earlier kernel of the stream wrote, and before anything is
// written that one may still read.
INCIPIT_DEVICE void WaitForEarlierKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// The next kernel's blocks may start when all of this one's have said so or ended.
INCIPIT_DEVICE void LetNextKernelStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- clusters: blocks Block() / n * n .. + n - 1 see each other's shared memory
INCIPIT_DEVICE int ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
// All threads of the cluster meet: LoadCluster sees what a block stored in its own shared memory.
// Nothing else is ordered, neither global memory nor loads of other blocks' memory: a release of
// those waits until the thread's stores to global memory have reached L2.
INCIPIT_DEVICE void SyncCluster() {
  asm volatile(
      "fence.release.sync_restrict::shared::cta.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// The same in two steps, and all memory accesses before the first one are over for all who come out
// of the second, loads too. No LoadCluster in between.
INCIPIT_DEVICE void ArriveCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
INCIPIT_DEVICE void WaitCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// What is at the place that `shared` is in this block, of the block with that rank.
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

// ---- atomics: of whole numbers only, as the order of additions is nobody's
INCIPIT_DEVICE uint32_t AtomicAddShared(uint32_t* address, uint32_t value) {
  return atomicAdd(address, value);
}
INCIPIT_DEVICE uint64_t AtomicAddShared(uint64_t* address, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(address), value);
}
INCIPIT_DEVICE uint32_t AtomicMaxShared(uint32_t* address, uint32_t value) {
  return atomicMax(address, value);
}
// Returns what was there. What this block stored before (ordered by a SyncBlock) is seen by whoever
// gets a later number, after a SyncBlock of its own.
INCIPIT_DEVICE uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(address)), "r"(value)
               : "memory");
  return before;
}

// ---- numbers
INCIPIT_DEVICE float ToFloat(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
INCIPIT_DEVICE float LowFloat(uint32_t pair) { return __uint_as_float(pair << 16); }
INCIPIT_DEVICE float HighFloat(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000); }
// To nearest, ties to even.
INCIPIT_DEVICE uint32_t PackBF16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
INCIPIT_DEVICE bf16 ToBF16(float value) {
  return {static_cast<uint16_t>(PackBF16(value, 0) & 0xFFFF)};
}
// The same number, of which the compiler no longer knows where it is from: what follows from it is
// computed again where it is needed, instead of kept in a register for a whole loop.
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
// 2^x and 1 / x within two units in the last place; subnormal results may be zero.
INCIPIT_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
INCIPIT_DEVICE float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Rounded, and never contracted with what stands around them.
INCIPIT_DEVICE float Add(float a, float b) { return __fadd_rn(a, b); }
INCIPIT_DEVICE float Multiply(float a, float b) { return __fmul_rn(a, b); }
INCIPIT_DEVICE float Divide(float a, float b) { return __fdiv_rn(a, b); }
INCIPIT_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
INCIPIT_DEVICE float SquareRoot(float x) { return __fsqrt_rn(x); }
INCIPIT_DEVICE double Add(double a, double b) { return __dadd_rn(a, b); }
INCIPIT_DEVICE double Multiply(double a, double b) { return __dmul_rn(a, b); }
INCIPIT_DEVICE float Max(float a, float b) {
  return fmaxf(a, b);
}  // of a NaN and a number: the number
INCIPIT_DEVICE uint64_t MultiplyHigh(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
INCIPIT_DEVICE int CountLeadingZeros(uint32_t x) { return __clz(static_cast<int>(x)); }
INCIPIT_DEVICE int CountLeadingZeros(uint64_t x) { return __clzll(static_cast<long long>(x)); }
INCIPIT_DEVICE int CountBits(uint32_t x) { return __popc(x); }

}  // namespace incipit::dev

#endif
