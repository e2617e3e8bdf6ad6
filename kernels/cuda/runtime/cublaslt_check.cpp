// Compares the declarations in cublaslt.h with cuBLASLt's own header at compile time, if that
// header is installed.
#include <cublasLt.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/cuda/runtime/cublaslt.h"

namespace incipit::cuda::lt {
namespace {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kF32 == CUDA_R_32F && kBF16 == CUDA_R_16BF && kComputeF32 == CUBLAS_COMPUTE_32F);
static_assert(kTransposed == CUBLAS_OP_T && kAsItIs == CUBLAS_OP_N);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kPreferWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPreferReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kConfigSplits == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
static_assert(kConfigReductionScheme == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
static_assert(kNoReduction == CUBLASLT_REDUCTION_SCHEME_NONE);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
using Theirs = cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(HeuristicResult) == sizeof(Theirs));
static_assert(offsetof(HeuristicResult, algorithm) == offsetof(Theirs, algo));
static_assert(offsetof(HeuristicResult, workspace_bytes) == offsetof(Theirs, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(Theirs, state));

// True if function parameters of the types Mine and Real are passed in the same way: both are
// pointers, or both are integers or enums of the same size.
template <class Mine, class Real>
constexpr bool kIsPassedAs = (std::is_pointer_v<Mine> && std::is_pointer_v<Real>) ||
                             ((std::is_integral_v<Mine> ||
                               std::is_enum_v<Mine>)&&(std::is_integral_v<Real> ||
                                                       std::is_enum_v<Real>)&&sizeof(Mine) ==
                              sizeof(Real));
template <class Mine, class Real>
struct IsCalledAs : std::false_type {};
template <class R, class... Mine, class S, class... Real>
requires(sizeof...(Mine) == sizeof...(Real)) struct IsCalledAs<R(Mine...), S(Real...)>
    : std::bool_constant<kIsPassedAs<R, S> && (kIsPassedAs<Mine, Real> && ...)> {
};

static_assert(IsCalledAs<GetVersion, decltype(cublasLtGetVersion)>::value);
static_assert(IsCalledAs<GetStatusName, decltype(cublasLtGetStatusName)>::value);
static_assert(IsCalledAs<Create, decltype(cublasLtCreate)>::value);
static_assert(IsCalledAs<Destroy, decltype(cublasLtDestroy)>::value);
static_assert(IsCalledAs<DescCreate, decltype(cublasLtMatmulDescCreate)>::value);
static_assert(IsCalledAs<LayoutCreate, decltype(cublasLtMatrixLayoutCreate)>::value);
static_assert(IsCalledAs<PreferenceCreate, decltype(cublasLtMatmulPreferenceCreate)>::value);
static_assert(IsCalledAs<DestroyOne, decltype(cublasLtMatmulDescDestroy)>::value);
static_assert(IsCalledAs<DestroyOne, decltype(cublasLtMatrixLayoutDestroy)>::value);
static_assert(IsCalledAs<DestroyOne, decltype(cublasLtMatmulPreferenceDestroy)>::value);
static_assert(IsCalledAs<SetAttribute, decltype(cublasLtMatmulDescSetAttribute)>::value);
static_assert(IsCalledAs<SetAttribute, decltype(cublasLtMatmulPreferenceSetAttribute)>::value);
static_assert(
    IsCalledAs<GetAlgorithmConfig, decltype(cublasLtMatmulAlgoConfigGetAttribute)>::value);
static_assert(IsCalledAs<GetHeuristic, decltype(cublasLtMatmulAlgoGetHeuristic)>::value);
static_assert(IsCalledAs<CheckAlgorithm, decltype(cublasLtMatmulAlgoCheck)>::value);
static_assert(IsCalledAs<Matmul, decltype(cublasLtMatmul)>::value);

}  // namespace
}  // namespace incipit::cuda::lt
