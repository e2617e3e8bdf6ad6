#include "kernels/cuda/host/attention_kernels.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/device/attention/append.h"
#include "kernels/cuda/device/attention/attention_step.h"
#include "kernels/cuda/device/attention/decode_attention.h"
#include "kernels/cuda/device/attention/prefill_attention.h"
#include "kernels/cuda/device/attention/simple_attention.h"

namespace incipit::cuda {
namespace {

template <class Kernel, class Args>
void LaunchOnAll(Stream& stream, int32_t num_sms, const Args& args) {
  Launch<Kernel>(stream, {.num_blocks = num_sms * Kernel::kBlocksPerSm, .dependent = true}, args);
}

// Calls `launch` with the template argument AttentionShape<head_dim, page_size>. REQUIRES: head_dim
// is 64 or 128, and page_size is 16, 32 or 64.
template <class Launcher>
void WithShape(int32_t head_dim, int32_t page_size, const Launcher& launch) {
  const auto with_page = [&]<int kHeadDim>() {
    if (page_size == 16) return launch.template operator()<AttentionShape<kHeadDim, 16>>();
    if (page_size == 32) return launch.template operator()<AttentionShape<kHeadDim, 32>>();
    INCIPIT_CHECK(page_size == 64);
    launch.template operator()<AttentionShape<kHeadDim, 64>>();
  };
  if (head_dim == 64) return with_page.template operator()<64>();
  INCIPIT_CHECK(head_dim == 128);
  with_page.template operator()<128>();
}

bool IsFast(int32_t head_dim) { return head_dim == 64 || head_dim == 128; }

}  // namespace

void LaunchAppend(Stream& stream, int32_t num_sms, int64_t rows_max, const AppendArgs& args) {
  using Kernel = Append<float>;
  const int64_t heads = rows_max * (args.num_heads + 2 * args.layout.num_kv_heads);
  const int64_t blocks = std::clamp<int64_t>(heads / (Kernel::kThreads / 32), 1,
                                             int64_t{num_sms} * Kernel::kBlocksPerSm);
  Launch<Kernel>(stream, {.num_blocks = static_cast<int32_t>(blocks), .dependent = true}, args);
}

size_t AttentionScratchBytes(const KvPoolShape& shape, int32_t num_sms) {
  if (!IsFast(shape.head_dim)) return 0;
  size_t bytes = 0;
  WithShape(shape.head_dim, shape.block_size, [&]<class Shape>() {
    using Kernel = PrefillAttention<Shape>;
    bytes = size_t{Kernel::kScratchBytes} * static_cast<size_t>(num_sms * Kernel::kBlocksPerSm);
  });
  return bytes;
}

void LaunchAttention(Stream& stream, int32_t num_sms, const AttentionList& list,
                     const PagedAttentionArgs& args) {
  if (!IsFast(args.head_dim)) return LaunchOnAll<SimpleAttention>(stream, num_sms, args);
  WithShape(args.head_dim, args.page_size, [&]<class Shape>() {
    if (list.num_prefill_tiles > 0) {
      LaunchOnAll<PrefillAttention<Shape>>(stream, num_sms, args);
    }
    LaunchOnAll<DecodeAttention<Shape>>(stream, num_sms, args);
  });
}

}  // namespace incipit::cuda
