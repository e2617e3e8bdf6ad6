// Stores the prompts of a log as trees of blocks. Prompts with a common prefix share the blocks of
// this prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace incipit {

// The number of a distinct block in a log. Two prompt blocks are the same distinct block if the
// prompts are equal up to the end of these blocks.
using BlockNode = uint32_t;
inline constexpr BlockNode kNoBlockNode = std::numeric_limits<BlockNode>::max();

// Maximum number of prompt blocks in a log, summed over all requests. A log of this size needs up
// to 8 GB of memory.
inline constexpr int64_t kLoggedBlocksMax = int64_t{1} << 26;

struct LoggedRequest {
  double time = 0;  // arrival time of the request, in seconds after the first request of the log
  // Number of prompt tokens, including the tokens of an incomplete last block.
  int64_t input_tokens = 0;
  int64_t line = 0;  // line number of the request in the file, starting at 1
};

// The prompt blocks of all requests in a log. A common prefix of several prompts is stored only
// once. Each block has a larger BlockNode number than the previous blocks of its prompt.
class BlockLog {
 public:
  // Creates an empty log for at most `blocks_max` blocks. A block has `block_tokens` tokens. The
  // content of a block (its token ids or its hash id) has `content_bytes` bytes.
  BlockLog(size_t content_bytes, int32_t block_tokens, int64_t blocks_max = kLoggedBlocksMax);
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  // Appends a request. `contents` is the concatenated contents of the full blocks of the prompt.
  // Returns RESOURCE_EXHAUSTED and appends nothing if the log would have more than `blocks_max`
  // blocks.
  absl::Status Add(const LoggedRequest& request, std::span<const std::byte> contents);

  int32_t block_tokens() const { return block_tokens_; }
  size_t num_requests() const { return requests_.size(); }
  size_t num_nodes() const { return parents_.size(); }
  const LoggedRequest& request(size_t index) const { return requests_[index]; }

  // Returns the numbers (BlockNode) of all blocks in the prompt of request `index`, in the order of
  // the prompt.
  std::span<const BlockNode> chain(size_t index) const;
  // Returns the number of blocks in the longest prefix that the prompt of request `index` shares
  // with an earlier request of the log.
  int64_t num_seen(size_t index) const { return num_seen_[index]; }

  // Returns the prompt block before block `node`, or kNoBlockNode if `node` is the first block of a
  // prompt.
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
  // num_seen_[r]: number of blocks at the start of prompt r that an earlier prompt also has.
  std::vector<int64_t> num_seen_;
  // chain_begin_[r]: index in `chains_` of the first prompt block of request r.
  std::vector<size_t> chain_begin_;
  std::vector<BlockNode> chains_;
  std::vector<BlockNode> parents_;   // parents_[n]: the prompt block before block n
  std::vector<std::byte> contents_;  // token ids or hash ids of block 0, block 1, and so on
  absl::flat_hash_set<BlockNode, ChildHash, ChildEqual> nodes_;
};

// A view of a BlockLog with larger blocks. A block of the view consists of `group` consecutive
// blocks of the log. The number (BlockNode) of a view block is the number of its last log block.
class BlockView {
 public:
  // REQUIRES: `group` > 0, and `log` outlives this object.
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
  // Returns the number of tokens in block `index` of the prompt of `request`. In a log of hash ids,
  // the last block of a prompt may be incomplete.
  int64_t num_tokens(size_t request, int64_t index) const;
  // Returns the number of tokens in the first `num_blocks` prompt blocks of `request`.
  int64_t prefix_tokens(size_t request, int64_t num_blocks) const;

 private:
  const BlockLog& log_;
  int32_t group_;
};

}  // namespace incipit
