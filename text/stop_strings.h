// Finds stop strings in text that arrives in pieces, across the borders of the pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace incipit {

// The stop strings of one request, as an automaton that finds all of them at once: Aho and
// Corasick, "Efficient string matching", CACM 18 (1975). Immutable; takes 24 bytes of memory for
// each byte of the strings.
class StopStringSet {
 public:
  // REQUIRES: no empty string.
  explicit StopStringSet(std::vector<std::string> strings);

  const std::vector<std::string>& strings() const { return strings_; }

 private:
  friend class StopStrings;
  static constexpr int32_t kRoot = 0, kNone = -1;

  // A prefix of at least one string. Most have one child, which needs one comparison.
  struct Node {
    int32_t child = kNone;     // the first
    int32_t sibling = kNone;   // the next child of the same parent
    int32_t fallback = kRoot;  // the longest proper suffix that is a node too
    int32_t depth = 0;         // bytes of the prefix
    char byte = 0;             // its last one
  };

  int32_t ChildOf(int32_t node, char byte) const {
    int32_t child = nodes_[static_cast<size_t>(node)].child;
    while (child != kNone && nodes_[static_cast<size_t>(child)].byte != byte) {
      child = nodes_[static_cast<size_t>(child)].sibling;
    }
    return child;
  }
  int32_t AddChild(int32_t node, char byte);
  void LinkFallbacks();
  // The node after `byte` of the text, given the node before.
  int32_t Next(int32_t node, char byte) const;
  // Bytes of `node`, without what is complete and begins no longer string.
  size_t NumBegun(int32_t node) const;

  std::vector<std::string> strings_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<int32_t> matched_;   // by node: the longest string that ends there, or kNone
  std::vector<int32_t> children_;  // by byte: of the root, or kRoot
};

// One choice's search. Takes time linear in the text, whatever the stop strings are. The stop
// string whose occurrence ends first wins; of two that end together, the one that begins first.
class StopStrings {
 public:
  explicit StopStrings(std::shared_ptr<const StopStringSet> set) : set_(std::move(set)) {}

  struct Result {
    std::string text;  // safe to show: no stop string can begin in it any more
    std::optional<size_t>
        matched;  // index of the stop string that was found; nothing after it counts
  };
  // With `include_stop`, a match's own text is part of Result::text, otherwise the text ends before
  // it.
  Result Push(std::string_view text, bool include_stop);
  // Text in which no stop string counts that ends in it, only one that begins in it and ends later.
  // Returns what is safe to show.
  std::string Pass(std::string_view text);
  // What was held back in case a stop string had begun.
  std::string Flush();

 private:
  // Takes text without a match; returns all that no stop string can begin in any more.
  std::string Hold(std::string_view text);

  std::shared_ptr<const StopStringSet> set_;
  int32_t node_ = StopStringSet::kRoot;  // the longest prefix that is a suffix of the text so far
  std::string held_;
};

}  // namespace incipit
