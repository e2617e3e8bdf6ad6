// Compares the bytes and accesses of the attention kernels with the formulas in the headers of the
// kernels.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/device/attention/decode_attention.h"
#include "kernels/cuda/device/attention/prefill_attention.h"
#include "tests/kernels/cuda/attention_case.h"

namespace incipit::cuda {
namespace {

using emulator::AccessKind;

bool IsIn(const emulator::SiteCounts& site, const std::string& name) {
  return site.file.ends_with(name);
}

void ExpectWideAccesses(const emulator::Report& report) {
  ASSERT_EQ(report.fault, "");
  EXPECT_FALSE(report.sites.empty());
  for (const emulator::SiteCounts& site : report.sites) {
    const std::string where = site.file + ":" + std::to_string(site.line);
    // Stores that clear rows may have bank conflicts at the end of a sequence, where some lanes
    // have no row to clear.
    const bool clears = site.kind == AccessKind::kSharedStore && IsIn(site, "attention_step.h");
    if (!clears) {
      EXPECT_EQ(site.bank_conflicts, 0) << where;
    }
    if (site.kind == AccessKind::kGlobalCopy) {
      EXPECT_EQ(site.lane_bytes, 16) << where;
    }
  }
}

// Returns the number of positions in the pages that contain the positions [begin, end).
int64_t PageRows(int begin, int end, int page_size) {
  return ((end - 1) / page_size - begin / page_size + 1) * page_size;
}

template <int kHeadDim, int kPageSize>
void CheckDecode(int window) {
  AttentionCase step({.num_heads = 8,
                      .num_kv_heads = 2,
                      .head_dim = kHeadDim,
                      .page_size = kPageSize,
                      .window = window},
                     {{0, 99, 100}, {1, 599, 600}, {2, 63, 66}});
  int64_t kv_bytes = 0, row_bytes = 0, partial_bytes = 0;
  for (int i = 0; i < step.list().num_decode_items; ++i) {
    const DecodeItem& item = step.decode_items()[i];
    kv_bytes += 2 * 4 * kHeadDim * PageRows(item.begin, item.end, kPageSize);
    row_bytes += 2 * 2 * kHeadDim * item.num_rows;
    if (item.num_splits > 1) partial_bytes += 2 * 4 * (kHeadDim + 2) * item.num_rows;
  }
  const auto report = step.Run<DecodeAttention<AttentionShape<kHeadDim, kPageSize>>>(4, 1, true);
  ExpectWideAccesses(report);
  EXPECT_EQ(report.bulk_bytes, kv_bytes);
  EXPECT_EQ(report.async_bytes, row_bytes);
  const int64_t out_bytes = 2 * kHeadDim * 8 * step.num_tokens();
  EXPECT_NEAR(report.store_bytes, out_bytes + partial_bytes, 64);
}

TEST(AttentionCosts, DecodeMovesWhatItMust) {
  CheckDecode<64, 16>(0);
  CheckDecode<128, 16>(0);
  CheckDecode<128, 64>(0);
  CheckDecode<128, 16>(40);
}

template <int kHeadDim>
void CheckPrefill() {
  using Kernel = PrefillAttention<AttentionShape<kHeadDim, 16>>;
  AttentionCase step({.num_heads = 4, .num_kv_heads = 1, .head_dim = kHeadDim},
                     {{0, 0, 50}, {1, 250, 300}});
  int64_t kv_bytes = 0, kept_bytes = 0;
  for (int i = 0; i < step.list().num_prefill_tiles; ++i) {
    const PrefillTile& tile = step.prefill_tiles()[i];
    kv_bytes += 4 * kHeadDim * PageRows(tile.begin, tile.end, 16);
    kept_bytes += ((tile.end - 1) / tile.split_length - tile.begin / tile.split_length) *
                  int64_t{Kernel::kScratchBytes};
  }
  const auto report = step.Run<Kernel>(2, 1, true);
  ExpectWideAccesses(report);
  EXPECT_EQ(report.bulk_bytes, kv_bytes);
  const int64_t row_bytes = 2 * kHeadDim * 4 * step.num_tokens();
  EXPECT_EQ(report.async_bytes, row_bytes);
  EXPECT_EQ(report.store_bytes, row_bytes + kept_bytes);
  for (const emulator::SiteCounts& site : report.sites) {
    if (site.kind == AccessKind::kGlobalStore) {
      EXPECT_EQ(site.lane_bytes, 16) << site.line;
    }
  }
}

TEST(AttentionCosts, PrefillMovesWhatItMust) {
  CheckPrefill<64>();
  CheckPrefill<128>();
}

}  // namespace
}  // namespace incipit::cuda
