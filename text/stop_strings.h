// Finds stop strings in output text that arrives in pieces. A stop string ends an output. Its bytes
// may arrive in several pieces.
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

// The stop strings of one request. An automaton finds all stop strings in one pass over the text
// (Aho and Corasick, "Efficient string matching", CACM 18, 1975). The automaton uses 24 bytes of
// memory for each byte of the stop strings. Immutable.
class StopStringSet {
 public:
  // REQUIRES: no string is empty.
  explicit StopStringSet(std::vector<std::string> strings);

  const std::vector<std::string>& strings() const { return strings_; }

 private:
  friend class StopStrings;
  static constexpr int32_t kRoot = 0, kNone = -1;

  // A node of the automaton, which stands for a prefix of at least one stop string. The children of
  // a node form a linked list. Most nodes have only one child.
  struct Node {
    int32_t child = kNone;    // index in nodes_ of the first child, or kNone
    int32_t sibling = kNone;  // index in nodes_ of the next child of the same parent, or kNone
    // Index in nodes_ of the node to try next if no child fits the next byte. This is the failure
    // function of Aho and Corasick.
    int32_t fallback = kRoot;
    int32_t depth = 0;  // length in bytes of the prefix for which the node stands
    char byte = 0;      // last byte of the prefix for which the node stands
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
  // Returns the next node of the automaton after `node` if the automaton reads the byte `byte`.
  int32_t Next(int32_t node, char byte) const;
  // Returns how many of the last bytes of the searched text may begin a stop string. `node` is the
  // current node of the automaton.
  size_t NumBegun(int32_t node) const;

  std::vector<std::string> strings_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  // Element i is the index of the longest stop string with which the prefix of node i ends. kNone
  // if the prefix ends with no stop string.
  std::vector<int32_t> matched_;
  std::vector<int32_t> children_;  // element b: child of the root for byte b, or kRoot
};

// Searches for stop strings in the text of one output, in time linear in the length of the text.
// Finds the stop string that ends first. If two stop strings end at the same byte, finds the longer
// stop string.
class StopStrings {
 public:
  explicit StopStrings(std::shared_ptr<const StopStringSet> set) : set_(std::move(set)) {}

  struct Result {
    std::string text;  // text to send; excludes the possible beginning of a stop string
    std::optional<size_t> matched;  // index of the stop string that was found
  };
  // Searches `text`, the next piece of the output. Returns the text to send. If a stop string is
  // found, Result::text ends after the stop string if `include_stop` is true, and before the stop
  // string otherwise.
  Result Push(std::string_view text, bool include_stop);
  // Adds `text`, the next piece of the output, but does not stop at stop strings in `text`. Returns
  // the text to send. Holds back the last bytes if they may begin a stop string.
  std::string Pass(std::string_view text);
  // Returns the text that was held back as the possible beginning of a stop string.
  std::string Flush();

 private:
  // Appends `text` to `held_`. Moves the bytes that cannot begin a stop string from `held_` to the
  // result.
  std::string Hold(std::string_view text);

  std::shared_ptr<const StopStringSet> set_;
  // Current node of the automaton. The node stands for the longest prefix of a stop string that is
  // a suffix of the searched text.
  int32_t node_ = StopStringSet::kRoot;
  std::string held_;
};

}  // namespace incipit
