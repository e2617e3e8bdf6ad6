// Declares the part of cuBLASLt (NVIDIA's library of matrix products) that this project uses. The
// library is loaded at run time, so a build does not need the library's header. If the header is
// installed, cublaslt_check.cpp compares these declarations with the header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda::lt {

// ---- values of cuBLASLt's enumerations, which have the size of int
inline constexpr int kSuccess = 0;
inline constexpr int kF32 = 0, kBF16 = 14;          // values of the enumeration cudaDataType_t
inline constexpr int kComputeF32 = 68;              // value of the enumeration cublasComputeType_t
inline constexpr int kTransposed = 1, kAsItIs = 0;  // values of the enumeration cublasOperation_t
inline constexpr int kDescTransA = 3, kDescTransB = 4;
// Attribute of a cuBLASLt preference: maximum workspace in bytes, a uint64_t
inline constexpr int kPreferWorkspaceBytes = 1;
// Attribute of a cuBLASLt preference: allowed reduction schemes, a uint32_t bit mask
inline constexpr int kPreferReductionSchemes = 3;
// Attribute of a cuBLASLt algorithm: number of parts into which each sum is split, an int32_t
inline constexpr int kConfigSplits = 2;
// Attribute of a cuBLASLt algorithm: how the parts of a split sum are added, a uint32_t
inline constexpr int kConfigReductionScheme = 3;
inline constexpr uint32_t kNoReduction = 0;

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// Pointer to an opaque object of cuBLASLt, for example a descriptor.
using Handle = void*;
using Stream = void*;

// ---- types of cuBLASLt's functions, for pointers from dlsym. The functions return a
// cublasStatus_t, except GetVersion and GetStatusName.
using GetVersion = size_t();
using GetStatusName = const char*(int status);
using Create = int(Handle* library);
using Destroy = int(Handle library);
using DescCreate = int(Handle* desc, int compute_type, int scale_type);
using LayoutCreate = int(Handle* layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
using PreferenceCreate = int(Handle* preference);
using DestroyOne = int(Handle descriptor);
using SetAttribute = int(Handle descriptor, int attribute, const void* value, size_t bytes);
using GetAlgorithmConfig = int(const Algorithm* algorithm, int attribute, void* value, size_t bytes,
                               size_t* written);
using GetHeuristic = int(Handle library, Handle desc, Handle a, Handle b, Handle c, Handle d,
                         Handle preference, int wanted, HeuristicResult results[], int* found);
using CheckAlgorithm = int(Handle library, Handle desc, Handle a, Handle b, Handle c, Handle d,
                           const Algorithm* algorithm, HeuristicResult* result);
using Matmul = int(Handle library, Handle desc, const void* alpha, const void* a, Handle a_layout,
                   const void* b, Handle b_layout, const void* beta, const void* c, Handle c_layout,
                   void* d, Handle d_layout, const Algorithm* algorithm, void* workspace,
                   size_t workspace_bytes, Stream stream);

}  // namespace incipit::cuda::lt
