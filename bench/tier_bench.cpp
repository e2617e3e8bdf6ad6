// Measures the disk tier: the rate of loads and stores over 1 GiB, and of direct reads of the same
// files without the tier. The environment variable INCIPIT_TIER_BENCH_DIR names the directory in
// which the files are created; the default is the directory for temporary files.
#include <benchmark/benchmark.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "tier/disk_tier.h"
#include "tier/files/posix_file.h"
#include "tier/segments/segment.h"

namespace incipit {
namespace {

constexpr uint32_t kNumChunks = 1024;
// The chunk of a model with 64 KiB of keys and values per token: 16 tokens, 1 MiB.
constexpr ChunkShape kShape = {.block_size = 16, .blocks_per_chunk = 1, .block_bytes = 1 << 20};

// Sleeps until an I/O thread wakes the engine.
class Wakeup {
 public:
  void Wake() {
    std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_one();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(5), [this] { return is_set_; });
    is_set_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

// A tier with kNumChunks chunks in a new directory.
class TierFiles {
 public:
  explicit TierFiles(IoMethod io) : tokens_(static_cast<size_t>(kShape.num_tokens())) {
    const char* const given = std::getenv("INCIPIT_TIER_BENCH_DIR");
    const std::filesystem::path parent =
        given != nullptr ? given : std::filesystem::temp_directory_path().string();
    std::string path = (parent / "tier_bench_XXXXXX").string();
    INCIPIT_CHECK(::mkdtemp(path.data()) != nullptr);
    options_.directory = path;
    options_.size_bytes = uint64_t{4} << 30;
    options_.staging_bytes = uint64_t{64} << 20;
    options_.io = io;
    options_.shape = kShape;
    options_.clock = &clock_;
    options_.unix_seconds = [] { return int64_t{1'000'000}; };
    auto tier = DiskTier::Create(options_);
    INCIPIT_CHECK(tier.ok());
    tier_ = *std::move(tier);
    tier_->SetWake([this] { wakeup_.Wake(); });
    wakeup_.Wake();  // the state of the tier may have changed before the call of SetWake
    while (tier_->tier_state() != TierState::kOn) Wait();
  }
  ~TierFiles() {
    tier_.reset();
    std::filesystem::remove_all(options_.directory);
  }

  ChunkIdentity Chunk(uint64_t number) {
    ChunkIdentity chunk;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint64_t bits = RandomBits(number, i, 0);
      std::memcpy(chunk.key.bytes.data() + 8 * i, &bits, sizeof(bits));
    }
    chunk.tokens = tokens_;
    return chunk;
  }
  // Stores the chunks [begin, end).
  void Store(uint64_t begin, uint64_t end) {
    while (begin < end) {
      if (const auto ticket = tier_->BeginStore(Chunk(begin), {})) {
        const std::span<std::byte> bytes = tier_->bytes_of(*ticket);
        std::memset(bytes.data(), static_cast<int>(begin % 255), bytes.size());
        tier_->FinishStore(*ticket);
        ++begin;
      } else {
        Wait();
      }
    }
    while (tier_->has_pending_stores()) Wait();
  }
  void Wait() {
    wakeup_.Wait();
    tier_->Poll();
  }
  DiskTier& tier() { return *tier_; }
  const DiskTierOptions& options() const { return options_; }

 private:
  std::vector<TokenId> tokens_;
  SteadyClock clock_;
  Wakeup wakeup_;
  DiskTierOptions options_;
  std::unique_ptr<DiskTier> tier_;
};

void SetRates(benchmark::State& state, size_t record_bytes) {
  state.SetBytesProcessed(state.iterations() * kNumChunks * static_cast<int64_t>(record_bytes));
}

// Loads all chunks, with range(0) loads in flight.
void TierLoad(benchmark::State& state, IoMethod io) {
  TierFiles files(io);
  files.Store(0, kNumChunks);
  const auto in_flight = static_cast<size_t>(state.range(0));
  DiskTier& tier = files.tier();
  for (auto _ : state) {
    std::deque<LoadTicket> tickets;
    for (uint64_t next = 0; next < kNumChunks || !tickets.empty();) {
      while (next < kNumChunks && tickets.size() < in_flight) {
        const auto ticket = tier.Load(files.Chunk(next++ * 379 % kNumChunks));
        INCIPIT_CHECK(ticket.has_value());
        tickets.push_back(*ticket);
      }
      while (tier.state(tickets.front()) == LoadState::kPending) files.Wait();
      INCIPIT_CHECK(tier.state(tickets.front()) == LoadState::kReady);
      tier.Release(tickets.front());
      tickets.pop_front();
    }
  }
  SetRates(state, RecordLayout(kShape).record_bytes);
}
BENCHMARK_CAPTURE(TierLoad, tier_load, IoMethod::kAuto)
    ->ArgName("in_flight")
    ->Arg(1)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TierLoad, tier_load_pread, IoMethod::kPread)
    ->ArgName("in_flight")
    ->Arg(1)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Reads the records of the files in the same order by direct I/O: no verification, no index.
void RawRead(benchmark::State& state) {
  TierFiles files(IoMethod::kAuto);
  files.Store(0, kNumChunks);
  const size_t record_bytes = RecordLayout(kShape).record_bytes;
  const SegmentLayout layout(files.options().segment_bytes, record_bytes);
  const auto file_system = MakePosixFileSystem(files.options().directory, IoMethod::kAuto);
  INCIPIT_CHECK(file_system->Prepare().ok());
  std::vector<std::shared_ptr<File>> segments;
  for (uint32_t i = 0; i * layout.num_records < kNumChunks; ++i) {
    segments.push_back(*file_system->Open(SegmentName(files.options().fingerprint, i + 1)));
  }
  const auto in_flight = static_cast<uint32_t>(state.range(0));
  const std::unique_ptr<ReadQueue> queue =
      in_flight == 1 ? MakeBlockingReadQueue() : MakeUringReadQueue(static_cast<int>(in_flight));
  if (queue == nullptr) return state.SkipWithError("the kernel does not allow io_uring");
  const PageBuffer memory(in_flight * record_bytes);
  std::vector<FileRead> reads(in_flight);
  for (auto _ : state) {
    uint32_t next = 0, num_pending = 0;
    const auto submit = [&](uint32_t i) {
      const uint32_t chunk = next++ * 379 % kNumChunks;
      reads[i] = {.file = segments[chunk / layout.num_records],
                  .offset = layout.OffsetOf(chunk % layout.num_records),
                  .out = memory.bytes().subspan(i * record_bytes, record_bytes),
                  .status = {}};
      queue->Submit(reads[i]);
      ++num_pending;
    };
    for (uint32_t i = 0; i < in_flight; ++i) submit(i);
    while (num_pending > 0) {
      FileRead& read = queue->Wait();
      INCIPIT_CHECK(read.status.ok());
      --num_pending;
      if (next < kNumChunks) submit(static_cast<uint32_t>(&read - reads.data()));
    }
  }
  SetRates(state, record_bytes);
}
BENCHMARK(RawRead)
    ->Name("raw_direct_read")
    ->ArgName("in_flight")
    ->Arg(1)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Stores 1 GiB of new chunks; the oldest segments are reclaimed.
void TierStore(benchmark::State& state) {
  TierFiles files(IoMethod::kAuto);
  uint64_t begin = 0;
  for (auto _ : state) {
    files.Store(begin, begin + kNumChunks);
    begin += kNumChunks;
  }
  SetRates(state, RecordLayout(kShape).record_bytes);
}
BENCHMARK(TierStore)->Name("tier_store")->UseRealTime()->Unit(benchmark::kMillisecond);

// The time that the engine thread needs for one lookup among 1,024 chunks.
void Has(benchmark::State& state) {
  TierFiles files(IoMethod::kAuto);
  files.Store(0, kNumChunks);
  std::vector<BlockHash> keys;
  for (uint64_t i = 0; i < kNumChunks; ++i) keys.push_back(files.Chunk(i).key);
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(files.tier().Has(keys[i]));
    i = (i + 1) % keys.size();
  }
}
BENCHMARK(Has)->Name("has");

// The time of a Poll without results.
void IdlePoll(benchmark::State& state) {
  TierFiles files(IoMethod::kAuto);
  for (auto _ : state) benchmark::DoNotOptimize(files.tier().Poll());
}
BENCHMARK(IdlePoll)->Name("idle_poll");

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
