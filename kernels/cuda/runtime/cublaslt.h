// Declares the part of cuBLASLt (NVIDIA's library of matrix products) that this project uses. The
// library is loaded at run time, so a build does not need cuBLASLt's header. If that header is
// installed, cublaslt_check.cpp compares the header with these declarations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::cuda::lt {

// ---- enumeration values of cuBLASLt, as int
inline constexpr int kSuccess = 0;
inline constexpr int kF32 = 0, kBF16 = 14;          // values of cudaDataType_t
inline constexpr int kComputeF32 = 68;              // value of cublasComputeType_t
inline constexpr int kTransposed = 1, kAsItIs = 0;  // values of cublasOperation_t
inline constexpr int kDescTransA = 3, kDescTransB = 4;
// Attribute of a cuBLASLt preference object (uint64_t): maximum size of the workspace in bytes
inline constexpr int kPreferWorkspaceBytes = 1;
// Attribute of a cuBLASLt preference object (uint32_t): bit mask of the allowed reduction schemes
inline constexpr int kPreferReductionSchemes = 3;
// Attribute of a cuBLASLt algorithm (int32_t): number of parts into which each sum is split
inline constexpr int kConfigSplits = 2;
// Attribute of a cuBLASLt algorithm (uint32_t): how the parts of a split sum are added
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

// ---- function types of cuBLASLt, for pointers from dlsym. The functions return a cublasStatus_t
// as int, except GetVersion and GetStatusName.
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
