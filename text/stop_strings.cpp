#include "text/stop_strings.h"

#include <utility>

#include "base/check.h"

namespace incipit {

StopStringSet::StopStringSet(std::vector<std::string> strings) : strings_(std::move(strings)) {
  matched_.assign(1, kNone);
  for (size_t i = 0; i < strings_.size(); ++i) {
    const std::string& string = strings_[i];
    INCIPIT_CHECK(!string.empty());
    int32_t node = kRoot;
    for (const char byte : string) {
      const int32_t child = ChildOf(node, byte);
      node = child == kNone ? AddChild(node, byte) : child;
    }
    int32_t& matched = matched_[static_cast<size_t>(node)];
    if (matched == kNone) matched = static_cast<int32_t>(i);
  }
  children_.assign(256, kRoot);
  for (int32_t child = nodes_[kRoot].child; child != kNone;
       child = nodes_[static_cast<size_t>(child)].sibling) {
    children_[static_cast<unsigned char>(nodes_[static_cast<size_t>(child)].byte)] = child;
  }
  LinkFallbacks();
}

int32_t StopStringSet::AddChild(int32_t node, char byte) {
  const auto child = static_cast<int32_t>(nodes_.size());
  Node& parent = nodes_[static_cast<size_t>(node)];
  const Node added = {.sibling = parent.child, .depth = parent.depth + 1, .byte = byte};
  parent.child = child;
  nodes_.push_back(added);
  matched_.push_back(kNone);
  return child;
}

// Sets the fallback of every node: the node from which the search continues after a mismatch.
// Visits shorter prefixes first, because their fallbacks determine the fallbacks of longer
// prefixes.
void StopStringSet::LinkFallbacks() {
  std::vector<int32_t> order = {kRoot};
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t parent = order[i];
    for (int32_t child = nodes_[static_cast<size_t>(parent)].child; child != kNone;
         child = nodes_[static_cast<size_t>(child)].sibling) {
      Node& node = nodes_[static_cast<size_t>(child)];
      if (parent != kRoot) {
        node.fallback = Next(nodes_[static_cast<size_t>(parent)].fallback, node.byte);
      }
      int32_t& matched = matched_[static_cast<size_t>(child)];
      if (matched == kNone) matched = matched_[static_cast<size_t>(node.fallback)];
      order.push_back(child);
    }
  }
}

int32_t StopStringSet::Next(int32_t node, char byte) const {
  while (node != kRoot) {
    const int32_t child = ChildOf(node, byte);
    if (child != kNone) return child;
    node = nodes_[static_cast<size_t>(node)].fallback;
  }
  return children_[static_cast<unsigned char>(byte)];
}

size_t StopStringSet::NumBegun(int32_t node) const {
  while (node != kRoot && nodes_[static_cast<size_t>(node)].child == kNone) {
    node = nodes_[static_cast<size_t>(node)].fallback;
  }
  return static_cast<size_t>(nodes_[static_cast<size_t>(node)].depth);
}

StopStrings::Result StopStrings::Push(std::string_view text, bool include_stop) {
  for (size_t i = 0; i < text.size(); ++i) {
    node_ = set_->Next(node_, text[i]);
    const int32_t matched = set_->matched_[static_cast<size_t>(node_)];
    if (matched == StopStringSet::kNone) continue;
    const auto found = static_cast<size_t>(matched);
    held_ += text.substr(0, i + 1);
    if (!include_stop) held_.resize(held_.size() - set_->strings()[found].size());
    return {.text = std::exchange(held_, {}), .matched = found};
  }
  return {.text = Hold(text), .matched = std::nullopt};
}

std::string StopStrings::Pass(std::string_view text) {
  for (const char byte : text) node_ = set_->Next(node_, byte);
  return Hold(text);
}

std::string StopStrings::Hold(std::string_view text) {
  held_ += text;
  std::string safe = held_.substr(0, held_.size() - set_->NumBegun(node_));
  held_.erase(0, safe.size());
  return safe;
}

std::string StopStrings::Flush() { return std::exchange(held_, {}); }

}  // namespace incipit
