// Calls a disk tier at random, on a disk that fails at random, and compares the tier with a simple
// model. A tier may lose chunks, but must never return bytes that are wrong or were removed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kNumSequences = 12, kSequenceChunks = 8;

class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed) {
    h_.options.size_bytes = (2 + Random(4)) * TierHarness::kSegmentBytes;
    h_.options.retry_pause_min = milliseconds(1);
    h_.options.retry_pause_max = milliseconds(4);
    if (Random(3) == 0) h_.options.write_bytes_per_second = 100 * kPageBytes;
    if (Random(4) == 0) h_.options.store = StorePolicy::kReused;
    for (uint64_t s = 0; s < kNumSequences; ++s) {
      for (uint64_t i = 0; i < kSequenceChunks; ++i) chunks_.emplace_back(s, i);
    }
    versions_.resize(chunks_.size());
    faults_->reorders_reads = true;
    Start();
  }

  void Run(int num_steps) {
    for (int step = 0; step < num_steps && !testing::Test::HasFailure(); ++step) {
      Step();
      Poll();
    }
    Finish();
  }
  uint64_t num_verified() const { return num_verified_; }

 private:
  struct OpenLoad {
    LoadTicket ticket;
    size_t chunk;
    Time deadline;
  };
  struct OpenStore {
    StoreTicket ticket;
    size_t chunk;
    uint64_t version;
  };

  uint64_t Random(uint64_t end) { return random_() % end; }

  void Start() {
    auto files = MakePosixFileSystem(h_.options.directory, IoMethod::kPread);
    h_.Create(std::make_unique<FaultyFileSystem>(std::move(files), faults_));
  }

  void Step() {
    const uint64_t choice = Random(1000);
    if (choice < 250) return BeginStore(Random(chunks_.size()));
    if (choice < 500) return EndStore();
    if (choice < 700) return Load(Random(chunks_.size()));
    if (choice < 820) return Release();
    if (choice < 825) return h_.clock.Advance(milliseconds(Random(3000)));
    if (choice < 830) return Remove(Random(chunks_.size()));
    if (choice < 831) return Clear();
    if (choice < 840) return ChangeFaults();
    if (choice < 842) return Restart();
    std::this_thread::sleep_for(std::chrono::microseconds(Random(400)));
  }

  void BeginStore(size_t chunk) {
    const bool has = h_.tier->Has(chunks_[chunk].identity.key);
    // The time does not advance, so no chunk expires. A chunk without a time to live replaces a
    // chunk with a time to live.
    const bool may_expire = Random(3) == 0;
    const auto ticket = h_.tier->BeginStore(
        chunks_[chunk].identity, {.time_to_live = may_expire ? seconds(1000) : Duration::zero()});
    if (!ticket) return;
    EXPECT_FALSE(has && may_expire);
    EXPECT_EQ(h_.tier->tier_state(), TierState::kOn);
    stores_.push_back({*ticket, chunk, versions_[chunk]});
    // Reads the version at the time of BeginStore, as a step that was computed before a removal.
    FillPayload(chunks_[chunk].identity.key, versions_[chunk], h_.tier->bytes_of(*ticket));
  }
  void EndStore() {
    if (stores_.empty()) return;
    const size_t i = Random(stores_.size());
    if (Random(5) == 0) {
      h_.tier->CancelStore(stores_[i].ticket);
    } else {
      h_.tier->FinishStore(stores_[i].ticket);
    }
    stores_.erase(stores_.begin() + static_cast<ptrdiff_t>(i));
  }

  void Load(size_t chunk) {
    const bool has = h_.tier->Has(chunks_[chunk].identity.key);
    const auto ticket = h_.tier->Load(chunks_[chunk].identity);
    const bool is_shared = ticket && std::ranges::any_of(loads_, [&](const OpenLoad& load) {
                             return load.ticket == *ticket;
                           });
    if (!ticket) return;
    EXPECT_TRUE(has || is_shared);
    loads_.push_back({*ticket, chunk, h_.clock.Now() + h_.options.load_deadline});
    CheckLoad(loads_.back());
  }
  void Release() {
    if (loads_.empty()) return;
    const size_t i = Random(loads_.size());
    h_.tier->Release(loads_[i].ticket);
    loads_.erase(loads_.begin() + static_cast<ptrdiff_t>(i));
  }
  void CheckLoad(const OpenLoad& load) {
    if (h_.tier->state(load.ticket) != LoadState::kReady) return;
    const BlockHash& key = chunks_[load.chunk].identity.key;
    EXPECT_TRUE(HasPayload(key, versions_[load.chunk], h_.tier->bytes(load.ticket)))
        << "chunk " << load.chunk << ", version " << versions_[load.chunk];
    ++num_verified_;
  }

  // Removes a chunk and all chunks that follow. Later stores have other bytes.
  void Remove(size_t chunk) {
    h_.tier->Remove(chunks_[chunk].identity.key);
    const size_t end = (chunk / kSequenceChunks + 1) * kSequenceChunks;
    for (size_t i = chunk; i < end; ++i) {
      ++versions_[i];
      EXPECT_FALSE(h_.tier->Has(chunks_[i].identity.key));
    }
    for (const OpenLoad& load : loads_) CheckLoad(load);
  }
  void Clear() {
    h_.tier->Clear();
    for (uint64_t& version : versions_) ++version;
    for (const OpenLoad& load : loads_) {
      EXPECT_EQ(h_.tier->state(load.ticket), LoadState::kFailed);
    }
  }

  void ChangeFaults() {
    StopFaults();
    const auto one_in = [&] { return static_cast<uint32_t>(1 + Random(20)); };
    switch (Random(7)) {
      case 0:
        faults_->fail_one_in = 5 * one_in();
        break;
      case 1:
        faults_->corrupt_read_one_in = one_in();
        break;
      case 2:
        faults_->corrupt_write_one_in = one_in();
        break;
      case 3:
        faults_->short_write_one_in = one_in();
        break;
      case 4:
        faults_->delay_max_us = 500;
        break;
      case 5:
        faults_->Hang(true);
        break;
      default:
        break;
    }
  }
  void StopFaults() {
    faults_->fail_one_in = 0;
    faults_->corrupt_read_one_in = 0;
    faults_->corrupt_write_one_in = 0;
    faults_->short_write_one_in = 0;
    faults_->delay_max_us = 0;
    faults_->Hang(false);
  }
  void WaitUntilOn() {
    StopFaults();
    EXPECT_TRUE(h_.WaitFor([&] { return h_.tier->tier_state() == TierState::kOn; }))
        << h_.tier->last_error();
  }
  // A removal that the disk has refused is repeated when the tier is on again. So the tier is on
  // before the process ends.
  void Restart() {
    WaitUntilOn();
    ReleaseAll();
    h_.tier.reset();
    Start();
  }
  void ReleaseAll() {
    for (const OpenLoad& load : loads_) h_.tier->Release(load.ticket);
    for (const OpenStore& store : stores_) h_.tier->CancelStore(store.ticket);
    loads_.clear();
    stores_.clear();
  }

  void Poll() {
    std::vector<LoadState> before;
    for (const OpenLoad& load : loads_) before.push_back(h_.tier->state(load.ticket));
    const bool has_changed = h_.tier->Poll();
    bool differs = false;
    for (size_t i = 0; i < loads_.size(); ++i) {
      const LoadState now = h_.tier->state(loads_[i].ticket);
      differs |= now != before[i];
      EXPECT_FALSE(now == LoadState::kPending && h_.clock.Now() >= loads_[i].deadline);
      CheckLoad(loads_[i]);
    }
    EXPECT_EQ(has_changed, differs);
    h_.AddStats();
  }

  void Finish() {
    WaitUntilOn();
    ReleaseAll();
    EXPECT_TRUE(h_.WaitFor([&] { return h_.stats.slots_free == 16; }));
    EXPECT_EQ(h_.stats.loads_pending, 0u);
    EXPECT_EQ(h_.stats.stores_pending, 0u);
    EXPECT_LE(h_.stats.bytes_used, h_.options.size_bytes);
    uint64_t num_chunks = 0;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      num_chunks += h_.tier->Has(chunks_[i].identity.key);
      h_.Load(chunks_[i], versions_[i]);  // checks the bytes
    }
    EXPECT_LE(num_chunks, chunks_.size());
  }

  std::mt19937_64 random_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
  TierHarness h_;
  std::vector<TestChunk> chunks_;
  std::vector<uint64_t> versions_;
  std::vector<OpenLoad> loads_;
  std::vector<OpenStore> stores_;
  uint64_t num_verified_ = 0;
};

TEST(DiskTierModelTest, NeverReturnsWrongBytes) {
  const char* const text = std::getenv("INCIPIT_TIER_SEEDS");
  const uint64_t num_seeds = text == nullptr ? 20 : std::strtoull(text, nullptr, 10);
  uint64_t num_verified = 0;
  for (uint64_t seed = 1; seed <= num_seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ModelRun run(seed);
    run.Run(4000);
    num_verified += run.num_verified();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(num_verified, 100 * num_seeds);
}

}  // namespace
}  // namespace incipit
