#include "kernels/emulator/access_counts.h"

#include <algorithm>

namespace incipit::emulator {
namespace {

constexpr uint64_t kBanks = 32, kBankBytes = 4, kSectorBytes = 32;
constexpr int kServedBytes = 128;
// Maximum number of incomplete accesses of a warp at one source line. An access is complete when
// all 32 lanes of the warp have made it. If there are more incomplete accesses, the oldest one is
// counted without the missing lanes.
constexpr size_t kMostOpen = 256;

bool IsShared(AccessKind kind) {
  return kind == AccessKind::kSharedLoad || kind == AccessKind::kSharedStore ||
         kind == AccessKind::kSharedAtomic || kind == AccessKind::kMatrixLoad ||
         kind == AccessKind::kSharedCopy;
}

}  // namespace

int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes) {
  const auto at_once = static_cast<size_t>(kServedBytes / std::max(bytes, 4));
  int64_t conflicts = 0;
  for (size_t first = 0; first < addresses.size(); first += at_once) {
    std::vector<uint64_t> words;
    for (const uint64_t address :
         addresses.subspan(first, std::min(at_once, addresses.size() - first))) {
      for (uint64_t at = 0; at < static_cast<uint64_t>(bytes); at += kBankBytes) {
        words.push_back((address + at) / kBankBytes);
      }
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<int64_t, kBanks> in_bank{};
    for (const uint64_t word : words) ++in_bank[word % kBanks];
    conflicts += std::max<int64_t>(*std::max_element(in_bank.begin(), in_bank.end()) - 1, 0);
  }
  return conflicts;
}

Sectors CountSectors(std::span<const uint64_t> addresses, int bytes) {
  std::vector<uint64_t> distinct(addresses.begin(), addresses.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Sectors sectors;
  // Index of the lowest sector (32 bytes of global memory) that is not counted yet.
  uint64_t next = 0;
  for (const uint64_t address : distinct) {
    const uint64_t last = (address + static_cast<uint64_t>(bytes) - 1) / kSectorBytes;
    const uint64_t first = std::max(address / kSectorBytes, next);
    if (last + 1 > first) sectors.touched += static_cast<int64_t>(last + 1 - first);
    next = std::max(next, last + 1);
  }
  const uint64_t total = distinct.size() * static_cast<uint64_t>(bytes);
  sectors.fewest = static_cast<int64_t>((total + kSectorBytes - 1) / kSectorBytes);
  return sectors;
}

size_t AccessCounts::SiteIndex(AccessKind kind, Site site) {
  const auto [at, is_new] = index_.try_emplace({site.file, site.line, kind}, sites_.size());
  if (is_new) sites_.push_back({.file = site.file, .line = site.line, .kind = kind});
  return at->second;
}

void AccessCounts::Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes,
                        Site site) {
  const size_t index = SiteIndex(kind, site);
  auto& at_sites = warps_[warp];
  if (at_sites.size() <= index) at_sites.resize(index + 1);
  WarpAtSite& here = at_sites[index];
  const auto number = static_cast<size_t>(lane);
  uint32_t& occurrence = here.occurrences[number];
  occurrence = std::max(occurrence, here.num_judged);
  const size_t open = occurrence++ - here.num_judged;
  if (here.open.size() <= open) here.open.resize(open + 1);
  Group& group = here.open[open];
  group.addresses[number] = address;
  group.bytes = bytes;
  group.lanes |= 1U << lane;
  while (!here.open.empty() && (here.open.front().lanes == ~0U || here.open.size() > kMostOpen)) {
    Judge(index, here.open.front());
    here.open.pop_front();
    ++here.num_judged;
  }
}

void AccessCounts::NoteRows(std::span<const uint64_t> rows, Site site) {
  constexpr int kRowBytes = 16;
  Add(sites_[SiteIndex(AccessKind::kMatrixLoad, site)], rows, kRowBytes);
}

void AccessCounts::EndWarp(int64_t warp) {
  const auto at = warps_.find(warp);
  if (at == warps_.end()) return;
  for (size_t site = 0; site < at->second.size(); ++site) {
    for (const Group& group : at->second[site].open) Judge(site, group);
  }
  warps_.erase(at);
}

void AccessCounts::Judge(size_t site, const Group& group) {
  std::array<uint64_t, kLanes> addresses{};
  size_t count = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if ((group.lanes >> lane & 1) != 0) addresses[count++] = group.addresses[lane];
  }
  if (count > 0) Add(sites_[site], {addresses.data(), count}, group.bytes);
}

void AccessCounts::Add(SiteCounts& counts, std::span<const uint64_t> addresses, int bytes) {
  ++counts.warp_accesses;
  counts.lane_accesses += static_cast<int64_t>(addresses.size());
  counts.lane_bytes = std::max(counts.lane_bytes, bytes);
  if (IsShared(counts.kind)) {
    counts.bank_conflicts += BankConflicts(addresses, bytes);
    return;
  }
  const Sectors sectors = CountSectors(addresses, bytes);
  counts.sectors += sectors.touched;
  counts.fewest_sectors += sectors.fewest;
}

std::vector<SiteCounts> AccessCounts::Sites() const {
  std::vector<SiteCounts> sites = sites_;
  std::sort(sites.begin(), sites.end(), [](const SiteCounts& a, const SiteCounts& b) {
    return std::tie(a.file, a.line, a.kind) < std::tie(b.file, b.line, b.kind);
  });
  return sites;
}

}  // namespace incipit::emulator
