// Tests the choice between Incipit's kernel and cuBLASLt for large products: the measurement, and
// the tuning file that stores its results.
#include "kernels/cuda/host/product_tuning_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/host/library_products.h"
#include "kernels/cuda/host/memory.h"
#include "kernels/emulator/runtime/device_memory.h"
#include "kernels/emulator/runtime/library_control.h"

namespace incipit::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void SetText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class TempFolder {
 public:
  TempFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "incipit-products-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// ---- the file alone

class ProductChoicesTest : public testing::Test {
 protected:
  ProductChoicesTest() {
    choices_.Set(kOwn, {});
    choices_.Set(kLibrary, {.is_library = true, .algorithm = {{1, 2, 3, 4, 5, 6, 7, ~0ULL}}});
  }

  static constexpr ProductKey kOwn = {ProductKind::kStore, 6144, 4096, 1024};
  static constexpr ProductKey kLibrary = {ProductKind::kGate, 28672, 4096, 8192};
  TempFolder folder_;
  const std::string path_ = (folder_.path() / "some/where/products").string();
  ProductChoices choices_;
};

TEST_F(ProductChoicesTest, AreReadAsTheyWereWritten) {
  ASSERT_TRUE(choices_.Write(path_, "a card").ok());
  const auto read = ProductChoices::Read(path_, "a card");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->all(), choices_.all());
  EXPECT_EQ(read->Find({ProductKind::kAdd, 6144, 4096, 1024}), nullptr);
  // Nothing else is left there.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path() / "some/where"), {}),
            1);
}

TEST_F(ProductChoicesTest, OfAnotherMachineAreDistinguished) {
  ASSERT_TRUE(choices_.Write(path_, "a card").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ProductChoices::Read(path_, "a card, newer").status()));
  EXPECT_TRUE(absl::IsNotFound(ProductChoices::Read(path_ + "x", "a card").status()));
  // A folder is no file.
  EXPECT_FALSE(ProductChoices::Read(folder_.path().string(), "a card").ok());
}

TEST_F(ProductChoicesTest, CutAnywhereAreRefused) {
  ASSERT_TRUE(choices_.Write(path_, "a card").ok());
  const std::string whole = TextOf(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    SetText(path_, whole.substr(0, size));
    EXPECT_TRUE(absl::IsInvalidArgument(ProductChoices::Read(path_, "a card").status())) << size;
  }
}

TEST_F(ProductChoicesTest, LinesThatSayNothingAreRefused) {
  ASSERT_TRUE(choices_.Write(path_, "a card").ok());
  const std::string whole = TextOf(path_);
  const size_t end = whole.find("end\n");
  for (const std::string line :
       {"", " ", "store", "store 1 2 3", "store 1 2 3 mine", "store 1 2 3 own 4", "sum 1 2 3 own",
        "store 1 2 x own", "store 1 2 99999999999999999999 own", "add 1 2 3 library",
        "add 1 2 3 library 1 2 3 4 5 6 7", "add 1 2 3 library 1 2 3 4 5 6 7 g",
        "add 1 2 3 library 1 2 3 4 5 6 7 8 9", "store  1 2 3 own", "store -1 2 3 own",
        "store 1 0 3 own"}) {
    SetText(path_, whole.substr(0, end) + line + "\nend\n");
    EXPECT_TRUE(absl::IsInvalidArgument(ProductChoices::Read(path_, "a card").status())) << line;
  }
  SetText(path_, std::string(3 << 20, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(ProductChoices::Read(path_, "a card").status()));
}

TEST_F(ProductChoicesTest, ThatCannotBeWrittenSayWhy) {
  SetText(folder_.path() / "file", "");
  const absl::Status status = choices_.Write((folder_.path() / "file/under").string(), "a card");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("file/under cannot be written"));
}

// ---- a backend that starts with a tuning file

class TuningTest : public testing::Test {
 protected:
  // Starts a backend for steps of at most 40 tokens. Returns how many products the library computed
  // during the start.
  int64_t Start() {
    notes_.clear();
    const int64_t before = emulator::NumLibraryProducts();
    const auto backend = *CreateCudaBackend(
        {.large_products = LargeProducts::kFastest,
         .tuning_file = path_.string(),
         .note =
             [this](std::string_view note, bool is_warning) {
               notes_.push_back(fmt::format("{}: {}", is_warning ? "warning" : "info", note));
             },
         .large_rows_min = 16});
    const std::vector<uint16_t> data(size_t{64} * 64, 0x3C00);
    const ConstTensorView view = {
        .data = data.data(), .dtype = DType::kBF16, .rows = 64, .cols = 64};
    std::vector<std::unique_ptr<Weight>> weights;
    for (const WeightRole role : {WeightRole::kQkv, WeightRole::kOutput, WeightRole::kGateUp,
                                  WeightRole::kDown, WeightRole::kHead, WeightRole::kEmbedding}) {
      weights.push_back(*backend->PackWeight({&view, 1}, role, WeightFormat::kAsStored, {}));
    }
    const absl::Status status = backend->Reserve(
        {.tokens_max = 40, .sequences_max = 4, .blocks_max = 64, .samples_max = 4});
    EXPECT_TRUE(status.ok()) << status;
    return emulator::NumLibraryProducts() - before;
  }

  // Returns the number of products for which the tuning file selects the library. A start computes
  // these products once, to load their kernels.
  int64_t NumOfLibrary() const {
    const std::string text = TextOf(path_);
    int64_t count = 0;
    for (size_t at = 0; (at = text.find(" library ", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "products";
  std::vector<std::string> notes_;
};

TEST_F(TuningTest, MeasuresOnceAndReadsTheFileAfterwards) {
  EXPECT_GT(Start(), 0);
  // The tuning file has six sizes: three kinds of products, each from 16 rows on and from 32 rows
  // on.
  EXPECT_THAT(
      notes_,
      ElementsAre(HasSubstr("of 6 sizes are computed by host products 1; sizes measured now: 6")));
  const std::string text = TextOf(path_);
  EXPECT_THAT(text, HasSubstr("host emulator, 4 SMs"));
  EXPECT_THAT(text, HasSubstr("\ngate 64 64 32 "));
  EXPECT_EQ(Start(), NumOfLibrary());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("; sizes measured now: 0")));
  EXPECT_EQ(TextOf(path_), text);
}

TEST_F(TuningTest, MeasuresWhatIsMissing) {
  Start();
  const std::string text = TextOf(path_);
  const size_t line = text.find("\nadd 64 64 16 "), end = text.find('\n', line + 1);
  SetText(path_, text.substr(0, line) + "\nadd 1024 512 4096 own" + text.substr(end));
  EXPECT_GT(Start(), NumOfLibrary() - 1);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("; sizes measured now: 1")));
  // What another model needs stays.
  EXPECT_THAT(TextOf(path_), HasSubstr("\nadd 1024 512 4096 own\n"));
}

TEST_F(TuningTest, MeasuresAgainWhatTheLibraryDoesNotOffer) {
  Start();
  const std::string text = TextOf(path_);
  const size_t line = text.find("\nstore 64 64 16 "), end = text.find('\n', line + 1);
  SetText(path_,
          text.substr(0, line) + "\nstore 64 64 16 library 9 9 9 9 9 9 9 9" + text.substr(end));
  EXPECT_GT(Start(), 0);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("; sizes measured now: 1")));
  EXPECT_EQ(Start(), NumOfLibrary());
}

TEST_F(TuningTest, RewritesAFileOfAnotherMachineOrOfGarbage) {
  Start();
  const std::string good = TextOf(path_);
  std::string stale = good;
  stale.replace(stale.find("host products 1"), 15, "host products 0");
  for (const std::string& text :
       {stale, std::string("\x7f\x00garbage", 9), std::string(), good.substr(0, good.size() - 2)}) {
    SetText(path_, text);
    EXPECT_GT(Start(), 0);
    EXPECT_THAT(notes_,
                ElementsAre(AllOf(HasSubstr("warning: "), HasSubstr(" are measured again, ")),
                            HasSubstr("; sizes measured now: 6")));
    EXPECT_EQ(Start(), NumOfLibrary());
  }
}

TEST_F(TuningTest, GoesOnWithoutAFileThatCannotBeWritten) {
  SetText(folder_.path() / "file", "");
  path_ = folder_.path() / "file/under";
  EXPECT_GT(Start(), 0);
  EXPECT_THAT(notes_, Contains(HasSubstr("measured again at the next start")));
}

// The device has enough memory for the reserved buffers, but not for the measurement.
TEST_F(TuningTest, GoesOnWithOurKernelsWithoutMemoryToMeasure) {
  LibraryProducts products(
      {.large_products = LargeProducts::kFastest,
       .tuning_file = path_.string(),
       .note = [this](std::string_view note, bool) { notes_.emplace_back(note); },
       .large_rows_min = 16},
      *OpenDevice(0));
  Stream stream = *Stream::Create();
  const std::vector<uint16_t> data(size_t{64} * 64, 0x3C00);
  const ConstTensorView view = {.data = data.data(), .dtype = DType::kBF16, .rows = 64, .cols = 64};
  Memory staging;
  const auto weight = *DeviceWeight::Pack({.parts = {&view, 1}}, staging, stream);
  products.Add(*weight, WeightRole::kDown);
  constexpr size_t kWeightBytes = 64 * 64 * 2, kSumsBytes = 128 * 64 * 4;
  const size_t all = emulator::DeviceBytes();
  emulator::SetDeviceBytes(all - FreeDeviceBytes() + kWeightBytes + kSumsBytes +
                           kProductWorkspaceBytes + 100);
  const absl::Status status = products.Reserve(40, stream);
  const size_t left = FreeDeviceBytes();
  emulator::SetDeviceBytes(all);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("are not measured, "), HasSubstr("0 of 2 sizes")));
  // The backend has freed the work memory of cuBLAS, because no matrix product uses cuBLAS.
  EXPECT_GT(left, kProductWorkspaceBytes);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TuningTest, GoesOnWithOurKernelsWithoutALibrary) {
  emulator::SetLibraryIsThere(false);
  EXPECT_EQ(Start(), 0);
  emulator::SetLibraryIsThere(true);
  EXPECT_THAT(notes_,
              ElementsAre(HasSubstr(
                  "warning: large matrix products are computed by Incipit's own kernels, ")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace incipit::cuda
