// A log of prompts as a forest of blocks: equal prefixes are equal nodes. What sharing, reuse and
// working sets are computed from, at the log's own block size and at multiples of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace incipit {

// A block together with everything before it.
using BlockNode = uint32_t;
inline constexpr BlockNode kNoBlockNode = std::numeric_limits<BlockNode>::max();

// Blocks of all requests together, at the finest size. 5 to 8 GB of memory in the worst case.
inline constexpr int64_t kLoggedBlocksMax = int64_t{1} << 26;

struct LoggedRequest {
  double time = 0;           // seconds since the first request's, never going back
  int64_t input_tokens = 0;  // those behind the last full block included
  int64_t line = 0;          // in the file, from 1
};

// Contents are compared byte by byte, so nothing here depends on a hash. A node's parent has a
// smaller number than the node.
class BlockLog {
 public:
  // A block is `content_bytes` long and stands for `block_tokens` tokens.
  BlockLog(size_t content_bytes, int32_t block_tokens, int64_t blocks_max = kLoggedBlocksMax);
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  // `contents` are the request's full blocks, one behind the other. RESOURCE_EXHAUSTED beyond
  // `blocks_max`, with nothing added.
  absl::Status Add(const LoggedRequest& request, std::span<const std::byte> contents);

  int32_t block_tokens() const { return block_tokens_; }
  size_t num_requests() const { return requests_.size(); }
  size_t num_nodes() const { return parents_.size(); }
  const LoggedRequest& request(size_t index) const { return requests_[index]; }

  // The request's blocks in order.
  std::span<const BlockNode> chain(size_t index) const;
  // How many of them, from the first on, an earlier request had.
  int64_t num_seen(size_t index) const { return num_seen_[index]; }

  BlockNode parent(BlockNode node) const { return parents_[node]; }  // of a first block: none
  std::span<const std::byte> content(BlockNode node) const;

 private:
  struct Child {
    BlockNode parent;
    std::span<const std::byte> content;
  };
  struct ChildHash {
    using is_transparent = void;
    const BlockLog* log;
    size_t operator()(const Child& child) const;
    size_t operator()(BlockNode node) const;
  };
  struct ChildEqual {
    using is_transparent = void;
    const BlockLog* log;
    bool operator()(BlockNode a, BlockNode b) const { return a == b; }
    bool operator()(BlockNode node, const Child& child) const;
    bool operator()(const Child& child, BlockNode node) const { return (*this)(node, child); }
  };

  const size_t content_bytes_;
  const int32_t block_tokens_;
  const int64_t blocks_max_;
  std::vector<LoggedRequest> requests_;
  std::vector<int64_t> num_seen_;    // [request]
  std::vector<size_t> chain_begin_;  // [request + 1], into chains_
  std::vector<BlockNode> chains_;
  std::vector<BlockNode> parents_;   // [node]
  std::vector<std::byte> contents_;  // [node][content_bytes]
  absl::flat_hash_set<BlockNode, ChildHash, ChildEqual> nodes_;
};

// The log with `group` of its blocks taken as one. A chain that does not divide loses its last
// blocks. Nodes keep their numbers: a larger block is the last of its parts.
class BlockView {
 public:
  // REQUIRES: group > 0; the log outlives the view.
  BlockView(const BlockLog& log, int32_t group) : log_(log), group_(group) {}

  const BlockLog& log() const { return log_; }
  int64_t block_tokens() const { return int64_t{log_.block_tokens()} * group_; }
  int64_t num_blocks(size_t request) const {
    return static_cast<int64_t>(log_.chain(request).size()) / group_;
  }
  int64_t num_seen(size_t request) const { return log_.num_seen(request) / group_; }
  BlockNode block(size_t request, int64_t index) const {
    return log_.chain(request)[static_cast<size_t>((index + 1) * group_ - 1)];
  }
  // Of block `index`: less than block_tokens() where a chain of hashes counts a block that is not
  // full.
  int64_t num_tokens(size_t request, int64_t index) const;
  // Of the first `num_blocks` blocks.
  int64_t prefix_tokens(size_t request, int64_t num_blocks) const;

 private:
  const BlockLog& log_;
  int32_t group_;
};

}  // namespace incipit
