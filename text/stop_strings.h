// Finds stop strings in text that arrives in pieces. A stop string may extend over several pieces.
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

// The stop strings of one request, as an automaton that finds all strings in one pass (Aho and
// Corasick, "Efficient string matching", CACM 18, 1975). Uses 24 bytes of memory for each byte of
// the strings. Immutable.
class StopStringSet {
 public:
  // REQUIRES: no string is empty.
  explicit StopStringSet(std::vector<std::string> strings);

  const std::vector<std::string>& strings() const { return strings_; }

 private:
  friend class StopStrings;
  static constexpr int32_t kRoot = 0, kNone = -1;

  // A prefix of at least one string. Most nodes have one child, which needs one comparison.
  struct Node {
    int32_t child = kNone;     // index of the first child node
    int32_t sibling = kNone;   // index of the next child of the same parent
    int32_t fallback = kRoot;  // node of the longest proper suffix of the prefix
    int32_t depth = 0;         // length of the prefix in bytes
    char byte = 0;             // last byte of the prefix
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
  // Returns the node after `byte` if `node` is the node before `byte`.
  int32_t Next(int32_t node, char byte) const;
  // Returns the number of bytes at the end of the text that may be the start of a stop string. A
  // complete stop string that begins no longer stop string does not count.
  size_t NumBegun(int32_t node) const;

  std::vector<std::string> strings_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  // For each node: the index of the longest stop string that ends at the node, or kNone.
  std::vector<int32_t> matched_;
  std::vector<int32_t> children_;  // for each byte: child of the root, or kRoot
};

// The search in the text of one choice. The time is linear in the length of the text, for any
// number of stop strings. The stop string that ends first is found. Of two stop strings that end
// together, the longer one is found.
class StopStrings {
 public:
  explicit StopStrings(std::shared_ptr<const StopStringSet> set) : set_(std::move(set)) {}

  struct Result {
    std::string text;  // text to send; no stop string begins in the text and ends later
    std::optional<size_t> matched;  // index of the found stop string; later text is ignored
  };
  // Searches `text` and returns the text to send. If a stop string matches, Result::text ends after
  // the stop string if `include_stop` is set, and before the stop string otherwise.
  Result Push(std::string_view text, bool include_stop);
  // Adds `text` without reporting a stop string that ends in `text`. A stop string that begins in
  // `text` and ends in later text is still found. Returns the text to send.
  std::string Pass(std::string_view text);
  // Returns the text that was held back as the possible start of a stop string.
  std::string Flush();

 private:
  // Adds text without a match. Returns all text in which no stop string can begin any more.
  std::string Hold(std::string_view text);

  std::shared_ptr<const StopStringSet> set_;
  // The node of the longest prefix of a stop string that is a suffix of the text so far.
  int32_t node_ = StopStringSet::kRoot;
  std::string held_;
};

}  // namespace incipit
