// Stores a log of prompts as a forest (trees) of blocks, in which prompts with a common prefix have
// common nodes. Sharing, reuse and working sets are computed from this forest, at the block size of
// the log and at multiples of that size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace incipit {

// The number of a node in the forest of a BlockLog. A node stands for a block together with all
// previous blocks of the prompt.
using BlockNode = uint32_t;
inline constexpr BlockNode kNoBlockNode = std::numeric_limits<BlockNode>::max();

// Maximum number of blocks of all requests of a log of prompts, counted at the smallest block size.
// A log of this size takes up to 8 GB of memory.
inline constexpr int64_t kLoggedBlocksMax = int64_t{1} << 26;

struct LoggedRequest {
  double time = 0;  // arrival in seconds since the first request; never decreases in a log
  // Number of prompt tokens, including the tokens after the last full block.
  int64_t input_tokens = 0;
  int64_t line = 0;  // line number of the request in the file, starting at 1
};

// A forest (trees) of the prompt blocks of all requests in a log. Two blocks have the same node if
// their contents and all previous blocks of their prompts are equal. Contents are compared byte by
// byte. The number of a node is larger than the number of its parent.
class BlockLog {
 public:
  // Creates an empty log of at most `blocks_max` blocks. The content of a block has `content_bytes`
  // bytes and stands for `block_tokens` tokens.
  BlockLog(size_t content_bytes, int32_t block_tokens, int64_t blocks_max = kLoggedBlocksMax);
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  // Appends a request. `contents` holds the contents of the full blocks of the prompt, one after
  // the other. Returns RESOURCE_EXHAUSTED and appends nothing if the log would have more than
  // `blocks_max` blocks.
  absl::Status Add(const LoggedRequest& request, std::span<const std::byte> contents);

  int32_t block_tokens() const { return block_tokens_; }
  size_t num_requests() const { return requests_.size(); }
  size_t num_nodes() const { return parents_.size(); }
  const LoggedRequest& request(size_t index) const { return requests_[index]; }

  // Returns the nodes of the prompt blocks of request `index`, from the start of the prompt.
  std::span<const BlockNode> chain(size_t index) const;
  // Returns the number of leading blocks of request `index` that an earlier request of the log also
  // had.
  int64_t num_seen(size_t index) const { return num_seen_[index]; }

  // Returns the node of the block before `node` in the prompt, or kNoBlockNode if `node` is the
  // first block of a prompt.
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
  // num_seen_[r]: leading blocks of request r that an earlier request had.
  std::vector<int64_t> num_seen_;
  // chain_begin_[r]: index in chains_ of the first block of request r.
  std::vector<size_t> chain_begin_;
  std::vector<BlockNode> chains_;
  std::vector<BlockNode> parents_;   // parents_[n]: node of the block before node n in the prompt
  std::vector<std::byte> contents_;  // content_bytes bytes of content for each node
  absl::flat_hash_set<BlockNode, ChildHash, ChildEqual> nodes_;
};

// A view of a BlockLog with larger blocks: `group` consecutive blocks of the log form one block of
// the view. The view leaves out the remaining blocks at the end of a request. The node of a view
// block is the node of the last of its log blocks.
class BlockView {
 public:
  // REQUIRES: `group` > 0, and `log` exists as long as the view.
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
  // Returns the number of tokens in block `index` of `request`. In a log of hash ids, the last
  // block of a prompt may have fewer than block_tokens() tokens.
  int64_t num_tokens(size_t request, int64_t index) const;
  // Returns the number of tokens in the first `num_blocks` blocks of request number `request`.
  int64_t prefix_tokens(size_t request, int64_t num_blocks) const;

 private:
  const BlockLog& log_;
  int32_t group_;
};

}  // namespace incipit
