// Tests whole models on the emulated device. The emulated library computes every product that a
// library may compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/runtime/product_library.h"
#include "kernels/emulator/runtime/device_memory.h"
#include "kernels/emulator/runtime/library_control.h"
#include "tests/golden/checkpoint_run.h"
#include "tests/kernels/cuda/random_checkpoint.h"
#include "tests/support/source_folder.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Backend> WithProductsOf(LargeProducts whose) {
  return *CreateCudaBackend({.large_products = whose, .large_rows_min = 8});
}

TransformerRunnerOptions RoomFor(size_t num_tokens) {
  TransformerRunnerOptions options;
  options.num_blocks = static_cast<int32_t>(num_tokens / 16) + 8;
  options.step_tokens_max = static_cast<int32_t>(num_tokens);
  return options;
}

size_t Likeliest(const std::vector<double>& logprobs) {
  return static_cast<size_t>(std::ranges::max_element(logprobs) - logprobs.begin());
}

TEST(LibraryModelTest, StoriesGivesTheGoldenIds) {
  const auto folder = StoriesFolder();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto golden = ParseJson(*ReadTextFile(folder / "golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  auto tokens = (*golden)["prompt_ids"].get<std::vector<TokenId>>();
  const size_t prompt = tokens.size();
  const auto output = (*golden)["greedy_ids"].get<std::vector<TokenId>>();
  tokens.insert(tokens.end(), output.begin(), output.end());
  CheckpointRun run(WithProductsOf(LargeProducts::kLibrary), folder, RoomFor(tokens.size()));
  const int64_t before = emulator::NumLibraryProducts();
  const auto logprobs = run.AllLogprobs(tokens, 1 << 20);
  // Four of each layer.
  EXPECT_EQ(emulator::NumLibraryProducts() - before, 4 * run.model().config.num_layers);
  for (size_t i = 0; i < output.size(); ++i) {
    ASSERT_EQ(Likeliest(logprobs[prompt + i - 1]), static_cast<size_t>(output[i])) << i;
  }
}

// The library computes each product in several parts, each with some of the rows. The steps have
// several sizes.
TEST(LibraryModelTest, GivesWhatOurKernelsGive) {
  const RandomCheckpoint checkpoint(64, 2);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 150; ++i) tokens.push_back(3 + 7 * i % (kRandomVocab - 3));
  const auto logprobs_of = [&](std::unique_ptr<Backend> backend, int32_t chunk) {
    CheckpointRun run(std::move(backend), checkpoint.path(), RoomFor(tokens.size()));
    return run.AllLogprobs(tokens, chunk);
  };
  const auto own = logprobs_of(WithProductsOf(LargeProducts::kOwn), 1 << 20);
  for (const int32_t chunk : {1 << 20, 70}) {
    const int64_t products = emulator::NumLibraryProducts();
    const auto library = logprobs_of(*CreateCudaBackend({.large_products = LargeProducts::kLibrary,
                                                         .large_rows_min = 8,
                                                         .large_sums_bytes_max = 1}),
                                     chunk);
    EXPECT_GT(emulator::NumLibraryProducts(), products);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const size_t token = Likeliest(own[i]);
      ASSERT_NEAR(library[i][token], own[i][token], 0.05) << i;
    }
  }
}

class LibraryMemoryTest : public testing::TestWithParam<LargeProducts> {};

TEST_P(LibraryMemoryTest, NoStepWithinTheBoundsAllocates) {
  const auto folder = SourceFolder() / "tests/golden/hf/llama-bf16";
  CheckpointRun run(WithProductsOf(GetParam()), folder, RoomFor(80));
  const int64_t products = emulator::NumLibraryProducts();
  const int64_t before = emulator::NumAllocations();
  std::vector<TokenId> tokens(80, 5);
  run.AllLogprobs(tokens, 80);
  run.AllLogprobs(std::span(tokens).first(70), 33);
  EXPECT_EQ(emulator::NumAllocations(), before);
  if (GetParam() == LargeProducts::kLibrary) {
    EXPECT_GT(emulator::NumLibraryProducts(), products);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, LibraryMemoryTest,
                         testing::Values(LargeProducts::kLibrary, LargeProducts::kFastest),
                         [](const auto& info) {
                           return info.param == LargeProducts::kLibrary ? "Library" : "Fastest";
                         });

TEST(LibraryMemoryTest, IsCountedBeforeTheCache) {
  const size_t all = emulator::DeviceBytes();
  const auto backend = WithProductsOf(LargeProducts::kLibrary);
  const auto model = LoadModel(SourceFolder() / "tests/golden/hf/llama-bf16", *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const size_t used = all - backend->FreeBytes();
  // The memory is large enough for steps, but not for the library's workspace.
  emulator::SetDeviceBytes(used + cuda::kProductWorkspaceBytes / 2);
  const auto runner = TransformerRunner::Create(*backend, *model, RoomFor(80));
  emulator::SetDeviceBytes(all);
  EXPECT_EQ(runner.status().code(), absl::StatusCode::kResourceExhausted) << runner.status();
  EXPECT_THAT(MessageOf(runner.status()), HasSubstr("not enough memory for steps of 80 tokens"));
}

}  // namespace
}  // namespace incipit
