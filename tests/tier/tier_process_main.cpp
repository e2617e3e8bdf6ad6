// A program that uses a disk tier, for tests that kill the program.
//
//   tier_process DIR write SEED   stores chunks of the sequences SEED * 1,000,000 + n for n = 0, 1,
//   ...
//                                 and prints n when chunk n is stored
//   tier_process DIR hold         prints "on" when the tier is on, and waits for the end of its
//   input
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>

#include "tests/tier/tier_process.h"

namespace incipit {
namespace {

void Print(std::string_view line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Write(DiskTier& tier, uint64_t seed) {
  std::deque<uint64_t> pending;
  for (uint64_t n = 0;; tier.Poll()) {
    const TestChunk chunk(seed * 1'000'000 + n, 0);
    if (const auto ticket = tier.BeginStore(chunk.identity, {})) {
      FillPayload(chunk.identity.key, 0, tier.bytes_of(*ticket));
      tier.FinishStore(*ticket);
      pending.push_back(n++);
    }
    while (!pending.empty()) {
      const TestChunk first(seed * 1'000'000 + pending.front(), 0);
      if (!tier.Has(first.identity.key)) break;
      // Some loads, so that chunks are moved.
      if (pending.front() % 7 == 0) {
        if (const auto ticket = tier.Load(first.identity)) tier.Release(*ticket);
      }
      Print(std::to_string(pending.front()));
      pending.pop_front();
    }
  }
}

int Run(int argc, char** argv) {
  if (argc < 3) return 2;
  TierProcess process(argv[1]);
  auto tier = DiskTier::Create(process.options);
  if (!tier.ok()) {
    Print(tier.status().ToString());
    return 1;
  }
  while ((*tier)->tier_state() != TierState::kOn) {
    (*tier)->Poll();
    std::this_thread::yield();
  }
  if (std::string_view(argv[2]) == "write" && argc == 4) {
    Write(**tier, std::strtoull(argv[3], nullptr, 10));
  }
  Print("on");
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) { return incipit::Run(argc, argv); }
