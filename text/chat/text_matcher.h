// Finds a fixed string in a text that arrives byte by byte.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace incipit {

// Searches a stream of bytes for one string, with the algorithm of Knuth, Morris and Pratt. The
// total time is linear in the number of bytes.
class TextMatcher {
 public:
  // REQUIRES: the memory of `pattern` outlives the TextMatcher.
  explicit TextMatcher(std::string_view pattern) : pattern_(pattern), borders_(pattern.size()) {
    for (size_t i = 1, border = 0; i < pattern.size(); ++i) {
      while (border > 0 && pattern[i] != pattern[border]) border = borders_[border - 1];
      if (pattern[i] == pattern[border]) ++border;
      borders_[i] = border;
    }
  }

  // Reads the next byte of the stream. Returns true if the last bytes that were read are equal to
  // the pattern. Always returns false if the pattern is empty.
  bool Read(char byte) {
    if (pattern_.empty()) return false;
    if (length_ == pattern_.size()) length_ = borders_[length_ - 1];
    while (length_ > 0 && pattern_[length_] != byte) length_ = borders_[length_ - 1];
    if (pattern_[length_] == byte) ++length_;
    return length_ == pattern_.size();
  }

  void Reset() { length_ = 0; }

  // Returns the length of the longest prefix of the pattern that is a suffix of the bytes that were
  // read.
  size_t length() const { return length_; }
  std::string_view pattern() const { return pattern_; }

 private:
  std::string_view pattern_;
  // Element i: length of the longest string that is both a proper prefix and a suffix of the first
  // i + 1 bytes of the pattern.
  std::vector<size_t> borders_;
  size_t length_ = 0;
};

}  // namespace incipit
