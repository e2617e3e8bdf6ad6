// A tier for tests, in memory. Loads take random numbers of Poll calls, and may fail, hang or lose
// their chunk. The fake tier detects tickets that are used after their release.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kvcache/tiers/prefix_tier.h"

namespace incipit {

struct FakeTierOptions {
  ChunkShape shape;
  uint64_t seed = 0;
  int32_t staging_slots = 8;  // number of chunks that staging holds
  int32_t chunks_max = 1000;  // the oldest chunk is removed if the tier has more chunks
  int32_t polls_max = 5;      // a load or store ends after 0 to polls_max calls of Poll
  Duration load_time{};       // result of PredictLoad for one chunk
  // Probabilities in percent: a load fails, a load hangs for kHangPolls calls of Poll, a store is
  // refused, a store is lost.
  int32_t fail = 0, hang = 0, refuse = 0, lose = 0;
};

class FakeTier final : public PrefixTier {
 public:
  static constexpr int32_t kHangPolls = 60;

  explicit FakeTier(const FakeTierOptions& options) : options_(options), state_(options.seed) {}

  const ChunkShape& shape() const override { return options_.shape; }
  bool Has(const BlockHash& key) const override { return records_.contains(key.bytes); }
  bool Touch(const BlockHash& key, const Retention& retention) override {
    ++num_touches_;
    const auto found = records_.find(key.bytes);
    if (found == records_.end()) return Knows(key);
    return LastsFor(found->second, retention);
  }
  Duration PredictLoad(int32_t num_chunks) const override {
    return options_.load_time * num_chunks;
  }

  std::optional<LoadTicket> Load(const ChunkIdentity& chunk) override {
    const auto found = records_.find(chunk.key.bytes);
    if (found == records_.end()) return std::nullopt;
    for (auto& [number, load] : loads_) {
      if (load.key == chunk.key && load.num_users > 0 && load.state != LoadState::kFailed) {
        ++load.num_users;
        return LoadTicket{number};
      }
    }
    if (num_slots_used() >= options_.staging_slots) return std::nullopt;
    ++num_loads_;
    loads_[++next_] = {.key = chunk.key,
                       .polls = Chance(options_.hang) ? kHangPolls : Pick(options_.polls_max),
                       .fails = Chance(options_.fail) || !IsSame(found->second, chunk),
                       .bytes = found->second.bytes,
                       .num_users = 1};
    if (wake_) wake_();
    return LoadTicket{next_};
  }
  LoadState state(LoadTicket ticket) const override { return At(ticket).state; }
  std::span<const std::byte> bytes(LoadTicket ticket) const override {
    INCIPIT_CHECK(At(ticket).state == LoadState::kReady);
    return At(ticket).bytes;
  }
  void Release(LoadTicket ticket) override {
    const auto it = loads_.find(static_cast<uint64_t>(ticket));
    INCIPIT_CHECK(it != loads_.end() && it->second.num_users > 0);
    if (--it->second.num_users == 0 && it->second.state != LoadState::kPending) loads_.erase(it);
  }

  StoreRoom RoomFor(const BlockHash& key) const override {
    if (Knows(key) || num_stores_left_ == 0 || excluded_.contains(key.bytes)) {
      return StoreRoom::kNever;
    }
    return num_slots_used() < options_.staging_slots ? StoreRoom::kNow : StoreRoom::kLater;
  }
  std::optional<StoreTicket> BeginStore(const ChunkIdentity& chunk,
                                        const Retention& retention) override {
    if (Touch(chunk.key, retention) || Chance(options_.refuse) || num_stores_left_ == 0 ||
        excluded_.contains(chunk.key.bytes)) {
      return std::nullopt;
    }
    for (const auto& [number, store] : stores_) {
      if (store.record.key == chunk.key) return std::nullopt;
    }
    if (num_slots_used() >= options_.staging_slots) return std::nullopt;
    Record record = {.key = chunk.key,
                     .parent = chunk.parent,
                     .first_token = chunk.first_token,
                     .namespace_digest = chunk.namespace_digest,
                     .retention = retention,
                     .tokens = Copy(chunk.tokens),
                     .bytes = std::vector<std::byte>(options_.shape.num_bytes())};
    ++num_stores_;
    if (num_stores_left_ > 0) --num_stores_left_;
    stores_[++next_] = {.record = std::move(record), .polls = Pick(options_.polls_max)};
    return StoreTicket{next_};
  }
  std::span<std::byte> bytes_of(StoreTicket ticket) override { return At(ticket).record.bytes; }
  void FinishStore(StoreTicket ticket) override {
    INCIPIT_CHECK(!std::exchange(At(ticket).is_full, true));
    if (!IsFinite(At(ticket).record.bytes)) stores_.erase(static_cast<uint64_t>(ticket));
  }
  void CancelStore(StoreTicket ticket) override {
    INCIPIT_CHECK(!At(ticket).is_full);
    stores_.erase(static_cast<uint64_t>(ticket));
  }

  bool Poll() override {
    bool has_changed = false;
    for (auto it = loads_.begin(); it != loads_.end();) {
      PendingLoad& load = it->second;
      if (load.state == LoadState::kPending && load.polls-- <= 0) {
        load.state = load.fails ? LoadState::kFailed : LoadState::kReady;
        if (load.fails) records_.erase(load.key.bytes);
        has_changed = true;
      }
      it = load.num_users == 0 && load.state != LoadState::kPending ? loads_.erase(it)
                                                                    : std::next(it);
    }
    for (auto it = stores_.begin(); it != stores_.end();) {
      PendingStore& store = it->second;
      if (!store.is_full || store.polls-- > 0) {
        ++it;
        continue;
      }
      if (!Chance(options_.lose)) Keep(std::move(store.record));
      it = stores_.erase(it);
    }
    return has_changed;
  }

  // Load calls `wake` at once, so that the engine calls Poll again and again.
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }

  void Remove(const BlockHash& key) override {
    std::set<std::array<uint8_t, 32>> removed = {key.bytes};
    for (bool has_grown = true; std::exchange(has_grown, false);) {
      // A chunk whose previous chunk is unknown may follow the removed chunk.
      const auto add = [&](const Record& record) {
        const bool is_orphan = record.first_token > 0 && !Knows(record.parent);
        if (!is_orphan && !removed.contains(record.parent.bytes)) return;
        has_grown |= removed.insert(record.key.bytes).second;
      };
      for (const auto& [unused, record] : records_) add(record);
      for (const auto& [unused, store] : stores_) add(store.record);
    }
    for (const auto& bytes : removed) records_.erase(bytes);
    std::erase_if(stores_, [&](const auto& entry) {
      return removed.contains(entry.second.record.key.bytes);
    });
    for (auto& [unused, load] : loads_) {
      if (removed.contains(load.key.bytes)) Fail(load);
    }
  }
  void Clear() override {
    records_.clear();
    stores_.clear();
    for (auto& [unused, load] : loads_) Fail(load);
  }

  // Makes all later loads hang for kHangPolls calls of Poll.
  void HangLoads() { options_.hang = 100; }

  // Refuses all later stores except the next `num_stores` stores. -1: refuses no store.
  void AcceptStores(int32_t num_stores) { num_stores_left_ = num_stores; }

  // Refuses all later stores of the chunk `key`.
  void Exclude(const BlockHash& key) { excluded_.insert(key.bytes); }

  int64_t num_chunks() const { return std::ssize(records_); }
  // Returns the times to live with which the chunks were stored.
  std::vector<Duration> TimesToLive() const {
    std::vector<Duration> times;
    for (const auto& [unused, record] : records_) times.push_back(record.retention.time_to_live);
    return times;
  }
  int64_t num_loads() const { return num_loads_; }
  int64_t num_touches() const { return num_touches_; }  // calls of Touch
  int64_t num_stores() const { return num_stores_; }    // calls of BeginStore with a ticket
  // Number of tickets of loads that were not released.
  int64_t num_tickets() const {
    int64_t sum = 0;
    for (const auto& [unused, load] : loads_) sum += load.num_users;
    return sum;
  }

 private:
  struct Record {
    BlockHash key, parent;
    int64_t first_token = 0;
    std::array<uint8_t, 32> namespace_digest{};
    Retention retention;
    std::vector<TokenId> tokens;
    std::vector<std::byte> bytes;
  };
  struct PendingLoad {
    BlockHash key;
    int32_t polls = 0;  // number of calls of Poll after which the load ends
    bool fails = false;
    std::vector<std::byte> bytes;
    int32_t num_users = 0;
    LoadState state = LoadState::kPending;
  };
  struct PendingStore {
    Record record;
    int32_t polls = 0;
    bool is_full = false;
  };

  // Returns a number from 0 to `max`, from the generator splitmix64.
  int32_t Pick(int32_t max) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<int32_t>((z ^ (z >> 31)) % (static_cast<uint64_t>(max) + 1));
  }
  bool Chance(int32_t percent) { return Pick(99) < percent; }

  static bool LastsFor(const Record& record, const Retention& retention) {
    const Duration stored = record.retention.time_to_live, wanted = retention.time_to_live;
    return stored == Duration::zero() || (wanted != Duration::zero() && stored >= wanted);
  }
  bool Knows(const BlockHash& key) const {
    const auto is_store = [&](const auto& entry) { return entry.second.record.key == key; };
    return Has(key) || std::ranges::any_of(stores_, is_store);
  }
  int32_t num_slots_used() const { return static_cast<int32_t>(loads_.size() + stores_.size()); }
  const PendingLoad& At(LoadTicket ticket) const {
    const auto it = loads_.find(static_cast<uint64_t>(ticket));
    INCIPIT_CHECK(it != loads_.end() && it->second.num_users > 0);
    return it->second;
  }
  PendingStore& At(StoreTicket ticket) {
    const auto it = stores_.find(static_cast<uint64_t>(ticket));
    INCIPIT_CHECK(it != stores_.end());
    return it->second;
  }
  static std::vector<TokenId> Copy(const SequenceTokens& tokens) {
    std::vector<TokenId> copy;
    while (copy.size() < tokens.size()) {
      const auto piece = tokens.From(copy.size());
      copy.insert(copy.end(), piece.begin(), piece.end());
    }
    return copy;
  }
  static bool IsSame(const Record& record, const ChunkIdentity& chunk) {
    return record.key == chunk.key && record.parent == chunk.parent &&
           record.first_token == chunk.first_token &&
           record.namespace_digest == chunk.namespace_digest && record.tokens == Copy(chunk.tokens);
  }
  // Returns false if a slot of the fake model (8 bytes) is not finite: all bits are 1.
  static bool IsFinite(std::span<const std::byte> bytes) {
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      uint64_t slot = 0;
      std::memcpy(&slot, bytes.data() + i, sizeof(slot));
      if (slot == ~uint64_t{0}) return false;
    }
    return true;
  }
  // Keeps the bytes, because a step in flight may still read them.
  static void Fail(PendingLoad& load) { load.state = LoadState::kFailed; }
  void Keep(Record record) {
    if (std::ssize(records_) >= options_.chunks_max) records_.erase(records_.begin());
    const auto key = record.key.bytes;
    records_.insert_or_assign(key, std::move(record));
  }

  FakeTierOptions options_;
  uint64_t state_;
  std::map<std::array<uint8_t, 32>, Record> records_;
  std::map<uint64_t, PendingLoad> loads_;
  std::map<uint64_t, PendingStore> stores_;
  std::function<void()> wake_;
  uint64_t next_ = 0;
  int64_t num_loads_ = 0, num_stores_ = 0, num_touches_ = 0;
  int32_t num_stores_left_ = -1;
  std::set<std::array<uint8_t, 32>> excluded_;
};

}  // namespace incipit
