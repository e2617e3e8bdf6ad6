// A prefix cache reduced to what an eviction policy sees of it: blocks, their trees, and requests
// that come one at a time. Fast enough to compare policies over whole traces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "kvcache/eviction_policy.h"

namespace incipit {

// The chains of a trace: request after request, each the ids of its blocks, the same id for the
// same prefix.
using PolicyTrace = std::vector<std::vector<uint32_t>>;

class PolicySimulation {
 public:
  struct Options {
    EvictionPolicyKind kind = EvictionPolicyKind::kAdaptive;
    int32_t capacity = 0;
    int32_t block_size = 512;
    int32_t longest = 0;           // blocks of a request; unused where room is made first
    bool make_room_first = false;  // else a request's own blocks may be victims
    uint64_t key_seed = 0;
  };

  PolicySimulation(const Options& options, uint32_t num_ids)
      : options_(options),
        blocks_(static_cast<size_t>(options.capacity +
                                    (options.make_room_first ? 0 : options.longest))),
        block_of_(num_ids, kNoBlock),
        policy_(MakeEvictionPolicy(options.kind, blocks_, options.capacity, options.block_size)) {
    for (size_t i = blocks_.size(); i-- > 0;) free_.push_back(BlockId(i));
  }

  // One request from lookup to release. Returns how many of its blocks were found.
  int32_t Request(std::span<const uint32_t> chain) {
    chain = chain.first(std::min(chain.size(), static_cast<size_t>(options_.capacity)));
    table_.clear();
    while (table_.size() < chain.size() && BlockOf(chain[table_.size()]) != kNoBlock) {
      table_.push_back(BlockOf(chain[table_.size()]));
    }
    const auto num_found = static_cast<int32_t>(table_.size());
    SequenceUse use;
    if (!table_.empty()) policy_->Use(table_, use);
    num_cached_ -= num_found;
    for (const BlockId id : table_) ++At(blocks_, id).num_users;
    for (size_t i = table_.size(); i < chain.size(); ++i) table_.push_back(Take());
    for (size_t i = static_cast<size_t>(num_found); i < chain.size(); ++i) Publish(chain, i, use);
    for (const BlockId id : table_) --At(blocks_, id).num_users;
    policy_->Release(table_, use);
    num_cached_ += static_cast<int32_t>(table_.size());
    while (num_cached_ > options_.capacity) free_.push_back(Evict());
    return num_found;
  }

  int32_t num_cached() const { return num_cached_; }
  int64_t num_evictions() const { return num_evictions_; }
  const EvictionPolicy& policy() const { return *policy_; }

 private:
  BlockId& BlockOf(uint32_t id) { return block_of_[id]; }

  uint64_t KeyOf(uint32_t id) const {
    uint64_t z = (uint64_t{id} + 1 + (options_.key_seed << 32)) * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  BlockId Take() {
    if (free_.empty()) return Evict();
    const BlockId id = free_.back();
    free_.pop_back();
    return id;
  }

  void Publish(std::span<const uint32_t> chain, size_t i, SequenceUse& use) {
    const BlockId id = table_[i];
    Block& block = At(blocks_, id);
    const uint64_t key = KeyOf(chain[i]);
    std::memcpy(block.hash.bytes.data(), &key, sizeof(key));
    std::memcpy(block.hash.bytes.data() + 8, &chain[i], sizeof(chain[i]));
    block.num_users = 1;
    block.published = block.answers = true;
    block.starts_chain = i == 0;
    block.next_same = id;
    block.parent = i == 0 ? kNoBlock : table_[i - 1];
    block.first_child = block.next_sibling = block.prev_sibling = kNoBlock;
    if (i > 0) {
      Block& parent = At(blocks_, block.parent);
      block.next_sibling = parent.first_child;
      if (parent.first_child != kNoBlock) At(blocks_, parent.first_child).prev_sibling = id;
      parent.first_child = id;
    }
    BlockOf(chain[i]) = id;
    policy_->Add(id, use);
  }

  BlockId Evict() {
    const BlockId id = policy_->Evict();
    INCIPIT_CHECK(id != kNoBlock);
    Block& block = At(blocks_, id);
    INCIPIT_CHECK(block.published && block.num_users == 0 && !block.has_children());
    ++num_evictions_;
    --num_cached_;
    uint32_t chain_id = 0;
    std::memcpy(&chain_id, block.hash.bytes.data() + 8, sizeof(chain_id));
    BlockOf(chain_id) = kNoBlock;
    block.published = block.answers = false;
    if (block.parent == kNoBlock) return id;
    Block& parent = At(blocks_, block.parent);
    if (block.prev_sibling != kNoBlock) {
      At(blocks_, block.prev_sibling).next_sibling = block.next_sibling;
    } else {
      parent.first_child = block.next_sibling;
    }
    if (block.next_sibling != kNoBlock) {
      At(blocks_, block.next_sibling).prev_sibling = block.prev_sibling;
    }
    if (!parent.has_children() && parent.num_users == 0) policy_->OnChildless(block.parent);
    return id;
  }

  Options options_;
  std::vector<Block> blocks_;
  std::vector<BlockId> block_of_, free_, table_;
  std::unique_ptr<EvictionPolicy> policy_;
  int32_t num_cached_ = 0;
  int64_t num_evictions_ = 0;
};

}  // namespace incipit
