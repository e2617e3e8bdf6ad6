#include "kvcache/policies/one_off_prefixes.h"

#include <algorithm>

namespace incipit {

double OneOffPrefixes::RatesOf(const Entry& entry) {
  const double reused = entry.reused;
  return reused > 0 ? reused * reused / std::max<double>(entry.runs, reused) : 0;
}

void OneOffPrefixes::Set(Entry& entry, float runs, float reused) {
  sum_reused_ -= entry.reused;
  sum_rates_ -= RatesOf(entry);
  entry.runs = runs;
  entry.reused = reused;
  sum_reused_ += entry.reused;
  sum_rates_ += RatesOf(entry);
}

const OneOffPrefixes::Entry* OneOffPrefixes::Find(uint32_t prefix) const {
  const auto& entries = sets_[SetOf(prefix)];
  const auto entry = std::ranges::find(entries, prefix, &Entry::prefix);
  return entry == entries.end() ? nullptr : &*entry;
}

OneOffPrefixes::Entry& OneOffPrefixes::FindOrReplace(uint32_t prefix) {
  if (Entry* const entry = Find(prefix)) return *entry;
  auto& entries = sets_[SetOf(prefix)];
  const auto runs = [](const Entry& entry) { return entry.runs + entry.coming; };
  Entry& rarest = *std::ranges::min_element(entries, {}, runs);
  const float kept = runs(rarest) > 0 ? kKept : 1;
  Set(rarest, 0, 0);
  rarest = {.prefix = prefix};
  for (Entry& entry : entries) {
    entry.coming *= kept;
    Set(entry, entry.runs * kept, entry.reused * kept);
  }
  return rarest;
}

void OneOffPrefixes::CountNew(uint32_t prefix, double now) {
  Entry& entry = FindOrReplace(prefix);
  const double lag = sum_ages_ > 0 ? kLag * sum_squared_ages_ / sum_ages_ : 0;
  const double elapsed = std::max(0.0, now - entry.counted_at);
  const auto part = static_cast<float>(elapsed < lag ? elapsed / lag : 1);
  const float runs = entry.runs + part * entry.coming;
  const float kept = runs > kRunsMax ? 0.5F : 1;
  Set(entry, runs * kept, entry.reused * kept);
  entry.coming += 1 - part * entry.coming;
  entry.counted_at = now;
}

void OneOffPrefixes::CountReuse(uint32_t prefix, float part, double age) {
  const double kept = 1 - kAgeStep * std::min(1.0F, part);
  sum_ages_ = kept * sum_ages_ + part * age;
  sum_squared_ages_ = kept * sum_squared_ages_ + part * age * age;
  Entry* const entry = Find(prefix);
  if (entry == nullptr) return;
  // Do not increase `reused` above runs + coming, the number of requests that CountNew() has
  // counted. CountNew() does not count requests with a retention hint, but CountReuse() does.
  const float most = std::max(entry->reused, entry->runs + entry->coming);
  Set(*entry, entry->runs, std::min(entry->reused + part, most));
}

bool OneOffPrefixes::Contains(uint32_t prefix) const {
  const Entry* const entry = Find(prefix);
  if (entry == nullptr || sum_reused_ <= kPriorReused) return false;
  const double expected = entry->runs * sum_rates_ / sum_reused_;
  return entry->reused + kPriorReused < kOneOffShare * (expected + kPriorReused);
}

}  // namespace incipit
