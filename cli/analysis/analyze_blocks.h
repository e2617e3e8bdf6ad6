// Stores a log of prompts as a forest of blocks, in which equal prefixes of prompts are equal
// nodes. Sharing, reuse and working sets are computed from this forest, at the block size of the
// log and at multiples of that size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace incipit {

// The number of a node in the forest of a BlockLog. A node stands for a block and all previous
// blocks of the prompt.
using BlockNode = uint32_t;
inline constexpr BlockNode kNoBlockNode = std::numeric_limits<BlockNode>::max();

// Maximum number of blocks of all requests of a log, counted at the smallest block size. A log of
// this size takes up to 8 GB of memory.
inline constexpr int64_t kLoggedBlocksMax = int64_t{1} << 26;

struct LoggedRequest {
  double time = 0;           // seconds since the first request; never decreases
  int64_t input_tokens = 0;  // prompt tokens, including the tokens after the last full block
  int64_t line = 0;          // line number in the file, starting at 1
};

// A forest of the blocks of all requests. Blocks are equal if their contents and their previous
// blocks are equal; contents are compared byte by byte. The number of a node is larger than the
// number of its parent.
class BlockLog {
 public:
  // Creates an empty log of at most `blocks_max` blocks. The content of a block has `content_bytes`
  // bytes and stands for `block_tokens` tokens.
  BlockLog(size_t content_bytes, int32_t block_tokens, int64_t blocks_max = kLoggedBlocksMax);
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  // Appends a request. `contents` holds the contents of the full blocks of the request, one after
  // the other. Returns RESOURCE_EXHAUSTED and appends nothing if the log would have more than
  // `blocks_max` blocks.
  absl::Status Add(const LoggedRequest& request, std::span<const std::byte> contents);

  int32_t block_tokens() const { return block_tokens_; }
  size_t num_requests() const { return requests_.size(); }
  size_t num_nodes() const { return parents_.size(); }
  const LoggedRequest& request(size_t index) const { return requests_[index]; }

  // Returns the nodes of the blocks of request `index`, from the start of the prompt.
  std::span<const BlockNode> chain(size_t index) const;
  // Returns the number of leading blocks of request `index` that an earlier request also had.
  int64_t num_seen(size_t index) const { return num_seen_[index]; }

  // Returns the node of the previous block, or kNoBlockNode for a first block.
  BlockNode parent(BlockNode node) const { return parents_[node]; }
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
  std::vector<int64_t> num_seen_;    // [request]: leading blocks that an earlier request had
  std::vector<size_t> chain_begin_;  // [request + 1]: index of the first block in chains_
  std::vector<BlockNode> chains_;
  std::vector<BlockNode> parents_;   // [node]: the node of the previous block
  std::vector<std::byte> contents_;  // [node][content_bytes]: content of the block
  absl::flat_hash_set<BlockNode, ChildHash, ChildEqual> nodes_;
};

// A view of a BlockLog with larger blocks: `group` consecutive blocks of the log form one block.
// Remaining blocks at the end of a request are left out. The node of a larger block is the node of
// its last part.
class BlockView {
 public:
  // REQUIRES: `group` > 0, and `log` outlives the view.
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
  // Returns the number of tokens of block `index` of `request`. The last block of a chain of hash
  // ids may have fewer than block_tokens() tokens.
  int64_t num_tokens(size_t request, int64_t index) const;
  // Returns the number of tokens in the first `num_blocks` blocks of `request`.
  int64_t prefix_tokens(size_t request, int64_t num_blocks) const;

 private:
  const BlockLog& log_;
  int32_t group_;
};

}  // namespace incipit
