#include "cli/analysis/analyze_blocks.h"

#include <algorithm>
#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"

namespace incipit {

BlockLog::BlockLog(size_t content_bytes, int32_t block_tokens, int64_t blocks_max)
    : content_bytes_(content_bytes),
      block_tokens_(block_tokens),
      blocks_max_(blocks_max),
      chain_begin_{0},
      nodes_(0, ChildHash{this}, ChildEqual{this}) {
  INCIPIT_CHECK(content_bytes > 0 && block_tokens > 0 && blocks_max <= kLoggedBlocksMax);
}

absl::Status BlockLog::Add(const LoggedRequest& request, std::span<const std::byte> contents) {
  INCIPIT_CHECK(contents.size() % content_bytes_ == 0);
  const size_t num_blocks = contents.size() / content_bytes_;
  if (chains_.size() + num_blocks > static_cast<size_t>(blocks_max_)) {
    return ResourceExhausted(
        "the log has more than {} blocks of {} tokens, the maximum number of blocks", blocks_max_,
        block_tokens_);
  }
  BlockNode parent = kNoBlockNode;
  int64_t num_seen = 0;
  for (size_t i = 0; i < num_blocks; ++i) {
    const Child child = {parent, contents.subspan(i * content_bytes_, content_bytes_)};
    const auto next = static_cast<BlockNode>(num_nodes());
    const auto found = nodes_.lazy_emplace(child, [&](const auto& construct) {
      parents_.push_back(parent);
      contents_.insert(contents_.end(), child.content.begin(), child.content.end());
      construct(next);
    });
    if (*found != next) ++num_seen;
    parent = *found;
    chains_.push_back(parent);
  }
  requests_.push_back(request);
  num_seen_.push_back(num_seen);
  chain_begin_.push_back(chains_.size());
  return absl::OkStatus();
}

std::span<const BlockNode> BlockLog::chain(size_t index) const {
  return std::span(chains_).subspan(chain_begin_[index],
                                    chain_begin_[index + 1] - chain_begin_[index]);
}

std::span<const std::byte> BlockLog::content(BlockNode node) const {
  return std::span(contents_).subspan(node * content_bytes_, content_bytes_);
}

size_t BlockLog::ChildHash::operator()(const Child& child) const {
  const absl::string_view content(reinterpret_cast<const char*>(child.content.data()),
                                  child.content.size());
  return absl::HashOf(child.parent, content);
}

size_t BlockLog::ChildHash::operator()(BlockNode node) const {
  return (*this)(Child{log->parents_[node], log->content(node)});
}

bool BlockLog::ChildEqual::operator()(BlockNode node, const Child& child) const {
  return log->parents_[node] == child.parent &&
         std::memcmp(log->content(node).data(), child.content.data(), child.content.size()) == 0;
}

int64_t BlockView::num_tokens(size_t request, int64_t index) const {
  const int64_t left = log_.request(request).input_tokens - index * block_tokens();
  return std::clamp<int64_t>(left, 0, block_tokens());
}

int64_t BlockView::prefix_tokens(size_t request, int64_t num_blocks) const {
  return std::min(num_blocks * block_tokens(), log_.request(request).input_tokens);
}

}  // namespace incipit
