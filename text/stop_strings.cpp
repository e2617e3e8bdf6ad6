#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace incipit {

StopStrings::StopStrings(std::vector<std::string> strings) {
  patterns_.reserve(strings.size());
  for (std::string& string : strings) {
    INCIPIT_CHECK(!string.empty());
    Pattern pattern{.text = std::move(string), .fallback = {}};
    pattern.fallback.assign(pattern.text.size(), 0);
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      size_t length = pattern.fallback[i - 1];
      while (length > 0 && pattern.text[i] != pattern.text[length]) {
        length = pattern.fallback[length - 1];
      }
      pattern.fallback[i] = length + (pattern.text[i] == pattern.text[length] ? 1 : 0);
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::optional<size_t> StopStrings::Step(char c) {
  std::optional<size_t> found;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[i];
    size_t& matched = pattern.matched;
    while (matched > 0 && c != pattern.text[matched]) matched = pattern.fallback[matched - 1];
    if (c == pattern.text[matched]) ++matched;
    if (matched < pattern.text.size()) continue;
    matched = pattern.fallback[matched - 1];
    if (!found || pattern.text.size() > patterns_[*found].text.size()) found = i;
  }
  return found;
}

StopStrings::Result StopStrings::Push(std::string_view text, bool include_stop) {
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<size_t> found = Step(text[i]);
    if (!found) continue;
    held_ += text.substr(0, i + 1);
    if (!include_stop) held_.resize(held_.size() - patterns_[*found].text.size());
    return {.text = std::exchange(held_, {}), .matched = found};
  }
  return {.text = Hold(text), .matched = std::nullopt};
}

std::string StopStrings::Pass(std::string_view text) {
  for (const char c : text) Step(c);
  return Hold(text);
}

std::string StopStrings::Hold(std::string_view text) {
  held_ += text;
  size_t begun = 0;
  for (const Pattern& pattern : patterns_) begun = std::max(begun, pattern.matched);
  std::string safe = held_.substr(0, held_.size() - begun);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopStrings::Flush() { return std::exchange(held_, {}); }

}  // namespace incipit
