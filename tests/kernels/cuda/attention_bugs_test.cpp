// Plants mistakes in the attention kernels and in their plans. The checks that the tests of the
// kernels use must find each mistake.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/device/attention/decode_attention.h"
#include "kernels/cuda/device/attention/prefill_attention.h"
#include "tests/kernels/cuda/attention_case.h"

namespace incipit::cuda {
namespace {

using Sound = AttentionShape<64, 16>;

struct SeesOneMore : Sound {
  static bool Sees(int lowest, int highest, int position) {
    return Sound::Sees(lowest, highest + 1, position);
  }
};
struct SeesOneBelow : Sound {
  static bool Sees(int lowest, int highest, int position) {
    return Sound::Sees(lowest - 1, highest, position);
  }
};
struct ReadsTheNextPage : Sound {
  static int PageOf(int position) { return Sound::PageOf(position) + 1; }
};
struct LeavesTails : Sound {
  static constexpr bool kClearsValues = false;
};
struct AddsBackwards : Sound {
  static int SplitAt(int turn, int num_splits) { return num_splits - 1 - turn; }
};

const CaseShape kShape = {.num_heads = 4, .num_kv_heads = 1};
const CaseShape kWindowed = {.num_heads = 4, .num_kv_heads = 1, .window = 20};
const std::vector<CaseSequence> kSequences = {{0, 3, 6}, {1, 20, 22}, {2, 600, 602}};
const AttentionPlanOptions kPrefill = {.max_decode_tokens = 0};

// Returns true if a run ends with a fault or a wrong result.
template <class Kernel>
bool IsWrong(AttentionCase& step) {
  const emulator::Report report = step.Run<Kernel>();
  return !report.fault.empty() || !(step.WorstError() <= 1);
}

template <template <class> class Kernel, class Shape>
bool IsFound(const CaseShape& shape, const AttentionPlanOptions& options) {
  AttentionCase sound(shape, kSequences, options), step(shape, kSequences, options);
  EXPECT_FALSE(IsWrong<Kernel<Sound>>(sound));
  return IsWrong<Kernel<Shape>>(step);
}

TEST(AttentionBugs, ACausalMaskOffByOneIsFound) {
  EXPECT_TRUE((IsFound<DecodeAttention, SeesOneMore>(kShape, {})));
  EXPECT_TRUE((IsFound<PrefillAttention, SeesOneMore>(kShape, kPrefill)));
}

TEST(AttentionBugs, AWindowOffByOneIsFound) {
  EXPECT_TRUE((IsFound<DecodeAttention, SeesOneBelow>(kWindowed, {})));
  EXPECT_TRUE((IsFound<PrefillAttention, SeesOneBelow>(kWindowed, kPrefill)));
}

TEST(AttentionBugs, APageIndexOffByOneIsFound) {
  EXPECT_TRUE((IsFound<DecodeAttention, ReadsTheNextPage>(kShape, {})));
  EXPECT_TRUE((IsFound<PrefillAttention, ReadsTheNextPage>(kShape, kPrefill)));
}

TEST(AttentionBugs, ANaNBehindTheEndOfASequenceIsFound) {
  EXPECT_TRUE((IsFound<DecodeAttention, LeavesTails>(kShape, {})));
  EXPECT_TRUE((IsFound<PrefillAttention, LeavesTails>(kShape, kPrefill)));
}

// Returns the attention over a context of three splits with equal weight. The values in the splits
// are 1e20, -1e20 and 1, so the first two splits cancel each other.
template <class Kernel>
std::vector<uint16_t> CancellingSplits(const AttentionPlanOptions& options) {
  AttentionCase step(kShape, {{0, 767, 768}}, options);
  for (int position = 0; position < 768; ++position) {
    step.Store(KvPart::kKey, 0, position, 0);
    step.Store(KvPart::kValue, 0, position, position < 256 ? 1e20F : position < 512 ? -1e20F : 1);
  }
  EXPECT_EQ(step.Run<Kernel>().fault, "");
  return step.Row(0);
}

TEST(AttentionBugs, SplitsAddedInAnotherOrderAreFound) {
  const auto expected = CancellingSplits<PrefillAttention<Sound>>(kPrefill);
  EXPECT_EQ(CancellingSplits<DecodeAttention<Sound>>({}), expected);
  EXPECT_NE(CancellingSplits<DecodeAttention<AddsBackwards>>({}), expected);
}

TEST(AttentionBugs, ADroppedSplitIsFound) {
  AttentionCase waits(kShape, {{0, 600, 601}});
  ASSERT_EQ(waits.list().num_decode_items, 3);
  waits.list().num_decode_items = 2;
  EXPECT_TRUE(IsWrong<DecodeAttention<Sound>>(waits));
  EXPECT_FALSE(waits.arrivals_are_clear());

  AttentionCase forgets(kShape, {{0, 600, 601}});
  for (int i = 0; i < 3; ++i) forgets.decode_items()[i].num_splits = 2;
  forgets.list().num_decode_items = 2;
  EXPECT_TRUE(IsWrong<DecodeAttention<Sound>>(forgets));
}

TEST(AttentionBugs, APageTableOfAnotherSequenceIsFound) {
  AttentionCase step(kShape, {{0, 60, 61}, {1, 60, 61}});
  step.decode_items()[0].table = step.decode_items()[1].table;
  EXPECT_TRUE(IsWrong<DecodeAttention<Sound>>(step));
}

TEST(AttentionBugs, SplitsThatShareASlotAreFound) {
  AttentionCase step(kShape, {{0, 600, 601}});
  for (int i = 0; i < 3; ++i)
    step.decode_items()[i].partial -= 4 * (step.decode_items()[i].split > 0);
  EXPECT_TRUE(IsWrong<DecodeAttention<Sound>>(step));
}

}  // namespace
}  // namespace incipit::cuda
