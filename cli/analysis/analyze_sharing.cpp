#include "cli/analysis/analyze_sharing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace incipit {
namespace {

// Arrays with one element for each block of the log. num_uses[n] is 0 if no block of the view (a
// group of consecutive log blocks) ends with log block n.
struct Forest {
  explicit Forest(const BlockView& view);

  std::vector<uint32_t> num_uses;  // num_uses[n]: number of requests with block n
  std::vector<BlockNode> parents;  // parents[n]: the prompt block before block n
  // depths[n]: number of blocks from the start of the prompt to block n, including block n.
  std::vector<uint32_t> depths;
  // first_uses[n]: index in the log of the first request with block n.
  std::vector<uint32_t> first_uses;
};

Forest::Forest(const BlockView& view)
    : num_uses(view.log().num_nodes()),
      parents(num_uses.size(), kNoBlockNode),
      depths(num_uses.size()),
      first_uses(num_uses.size()) {
  for (size_t request = 0; request < view.log().num_requests(); ++request) {
    BlockNode parent = kNoBlockNode;
    for (int64_t i = 0; i < view.num_blocks(request); ++i) {
      const BlockNode node = view.block(request, i);
      if (num_uses[node]++ == 0) {
        parents[node] = parent;
        depths[node] = static_cast<uint32_t>(i + 1);
        first_uses[node] = static_cast<uint32_t>(request);
      }
      parent = node;
    }
  }
}

std::vector<SharedPrefix> FindPrefixes(const BlockView& view, const Forest& forest) {
  const size_t num_nodes = forest.num_uses.size();
  const auto continues = [&](size_t node) {
    const BlockNode parent = forest.parents[node];
    return parent != kNoBlockNode && forest.num_uses[parent] == forest.num_uses[node];
  };
  // A block has a larger number than the previous blocks of its prompt, so the loop visits the
  // previous blocks first.
  std::vector<uint32_t> depth_before(num_nodes);
  std::vector<bool> has_continuation(num_nodes);
  for (size_t node = 0; node < num_nodes; ++node) {
    if (forest.num_uses[node] == 0) continue;
    const BlockNode parent = forest.parents[node];
    if (continues(node)) {
      depth_before[node] = depth_before[parent];
      has_continuation[parent] = true;
    } else if (parent != kNoBlockNode) {
      depth_before[node] = forest.depths[parent];
    }
  }
  std::vector<SharedPrefix> prefixes;
  for (size_t node = 0; node < num_nodes; ++node) {
    if (forest.num_uses[node] < 2 || has_continuation[node]) continue;
    SharedPrefix prefix;
    prefix.node = static_cast<BlockNode>(node);
    prefix.num_requests = forest.num_uses[node];
    prefix.num_blocks = forest.depths[node];
    prefix.num_own_blocks = forest.depths[node] - depth_before[node];
    prefix.num_saved = (prefix.num_requests - 1) * prefix.num_own_blocks;
    prefix.first_line = view.log().request(forest.first_uses[node]).line;
    prefixes.push_back(prefix);
  }
  return prefixes;
}

Sharing::Lengths LengthsOf(std::vector<int64_t> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
  return {at(0.5), at(0.9), at(0.99), values.back(),
          static_cast<double>(sum) / static_cast<double>(values.size())};
}

// Returns the index of the histogram bar for requests with `num_blocks` shared blocks. Bar 0 is for
// 0 blocks. Bar i > 0 is for [2^(i - 1), 2^i) blocks.
size_t BinOf(int64_t num_blocks) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(num_blocks)));
}

Sharing::Bin EmptyBin(size_t index) {
  if (index == 0) return {};
  const int64_t from = int64_t{1} << (index - 1);
  return {from, 2 * from - 1, 0};
}

}  // namespace

Sharing MeasureSharing(const BlockView& view, size_t num_top) {
  const BlockLog& log = view.log();
  Sharing sharing;
  sharing.num_requests = static_cast<int64_t>(log.num_requests());
  std::vector<int64_t> prompt_tokens, shared_tokens;
  for (size_t request = 0; request < log.num_requests(); ++request) {
    const int64_t num_seen = view.num_seen(request);
    if (num_seen > 0) ++sharing.num_sharing;
    while (sharing.bins.size() <= BinOf(num_seen)) {
      sharing.bins.push_back(EmptyBin(sharing.bins.size()));
    }
    ++sharing.bins[BinOf(num_seen)].num_requests;
    prompt_tokens.push_back(log.request(request).input_tokens);
    sharing.input_tokens += prompt_tokens.back();
    shared_tokens.push_back(view.prefix_tokens(request, num_seen));
  }
  sharing.prompt_tokens = LengthsOf(std::move(prompt_tokens));
  sharing.shared_tokens = LengthsOf(std::move(shared_tokens));

  const Forest forest(view);
  for (const uint32_t num_uses : forest.num_uses) {
    sharing.num_distinct += num_uses > 0;
    sharing.num_used_once += num_uses == 1;
  }
  sharing.top = FindPrefixes(view, forest);
  sharing.num_prefixes = static_cast<int64_t>(sharing.top.size());
  const auto order = [](const SharedPrefix& prefix) {
    return std::tuple(-prefix.num_saved, -prefix.num_requests, prefix.node);
  };
  num_top = std::min(num_top, sharing.top.size());
  std::ranges::partial_sort(sharing.top, sharing.top.begin() + static_cast<ptrdiff_t>(num_top), {},
                            order);
  sharing.top.resize(num_top);
  return sharing;
}

std::vector<BlockNode> FirstBlocks(const BlockView& view, const SharedPrefix& prefix,
                                   int64_t num_blocks_max) {
  // The loop visits the blocks from last to first, because each block stores only its parent (the
  // previous block of the prompt).
  std::vector<BlockNode> blocks;
  const int64_t group = view.block_tokens() / view.log().block_tokens();
  BlockNode node = prefix.node;
  for (int64_t i = prefix.num_own_blocks * group; i-- > 0;) {
    if (i < num_blocks_max * group) blocks.push_back(node);
    node = view.log().parent(node);
  }
  std::ranges::reverse(blocks);
  return blocks;
}

}  // namespace incipit
