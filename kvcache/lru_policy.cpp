#include <array>
#include <vector>

#include "kvcache/eviction_policy.h"

namespace incipit {
namespace {

constexpr std::array<std::string_view, 6> kPolicyNames = {"lru", "lfu-aging", "lru-2",
                                                          "arc", "s3-fifo",   "adaptive"};

class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(std::span<Block> blocks) : blocks_(blocks), standing_(blocks.size()) {}
  void Use(std::span<const BlockId> found, SequenceUse&) override {
    for (const BlockId id : found) {
      if (standing_[static_cast<size_t>(id)]) Remove(id);
    }
  }
  void Add(BlockId, SequenceUse&) override {}
  void Release(std::span<const BlockId> freed, const SequenceUse&) override {
    for (auto it = freed.rbegin(); it != freed.rend(); ++it) {
      queue_.PushBack(blocks_, *it);
      standing_[static_cast<size_t>(*it)] = true;
    }
  }
  BlockId Evict() override {
    BlockId id = queue_.front;
    while (id != kNoBlock && At(blocks_, id).has_children() && At(blocks_, id).next_same == id) {
      id = At(blocks_, id).next;
    }
    if (id != kNoBlock) Remove(id);
    return id;
  }
  void Remove(BlockId id) override {
    queue_.Remove(blocks_, id);
    standing_[static_cast<size_t>(id)] = false;
  }
  void OnChildless(BlockId) override {}
  void Clear() override {}
  bool orders_unpublished() const override { return true; }
  size_t num_bytes() const override { return standing_.capacity(); }

 private:
  std::span<Block> blocks_;
  BlockList queue_;
  std::vector<char> standing_;
};

}  // namespace

std::string_view NameOf(EvictionPolicyKind kind) { return kPolicyNames[static_cast<size_t>(kind)]; }

std::optional<EvictionPolicyKind> EvictionPolicyOf(std::string_view name) {
  for (size_t i = 0; i < kPolicyNames.size(); ++i) {
    if (kPolicyNames[i] == name) return static_cast<EvictionPolicyKind>(i);
  }
  return std::nullopt;
}

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind, std::span<Block> blocks,
                                                   int32_t) {
  return std::make_unique<LruPolicy>(blocks);
}

}  // namespace incipit
