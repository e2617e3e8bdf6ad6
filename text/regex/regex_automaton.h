// Finds matches of regular expressions in linear time with deterministic finite automata. The
// automata are built when the tokenizer is loaded. An automaton reads symbols instead of
// characters. A symbol is the number of a class of characters. Two characters are in the same class
// if every set of the expression, such as [a-z], contains both or neither.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/regex/regex.h"
#include "text/regex/regex_syntax.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Divides all characters into classes, and numbers the classes. The number of a class is called a
// symbol. Two characters are in the same class if every set of the expression, such as [a-z],
// contains both or neither. One more symbol, edge(), stands for the start and the end of the text.
class SymbolMap {
 public:
  // Maximum number of classes of characters. The symbol edge() does not count.
  static constexpr size_t kSymbolsMax = 250;

  // Creates the map for a regular expression whose character sets are `sets`. Returns nothing if
  // the sets divide the characters into more than kSymbolsMax classes.
  static std::optional<SymbolMap> Create(const std::vector<const CodePointSet*>& sets);

  uint8_t edge() const { return edge_; }
  uint32_t num_symbols() const { return edge_ + 1u; }
  // Returns one element for each symbol (class of characters): true if `set` contains the
  // characters of the class. `with_edge` is the last element, for the start and the end of the
  // text.
  std::vector<bool> Members(const CodePointSet& set, bool with_edge) const;

  // Returns the symbol (number of the class) of the character that begins at `position`, and moves
  // `position` to the end of this character. At the end of the text, returns edge().
  uint8_t Next(std::string_view text, size_t& position) const;
  // Returns the symbol (number of the class) of the character that ends at `position`, and moves
  // `position` to the start of this character. At the start of the text, returns edge().
  uint8_t Previous(std::string_view text, size_t& position) const;

 private:
  CodePointMap symbols_;
  std::array<uint8_t, 128> ascii_{};
  // Element i is one character of class i.
  std::vector<char32_t> examples_;
  uint8_t edge_ = 0;
};

// A deterministic finite automaton. The next state depends on the state, on the symbol (class) of
// the next character, and on the bit set `conditions`. Each bit is the result of one look-around,
// or of one check of the last read character, at the current position of the text.
class Automaton {
 public:
  // A transition from one state to the next. Bit 0 is 1 if a match ends before the next character.
  // The other bits are the index in `entries_` at which the entries of the next state begin.
  using Entry = uint32_t;
  static constexpr uint32_t kDeadRow = 0;

  uint32_t start() const { return start_; }
  Entry Step(uint32_t row, uint32_t symbol, uint32_t conditions) const {
    return entries_[row + conditions * num_symbols_ + symbol];
  }
  static bool HasMatched(Entry entry) { return (entry & 1) != 0; }
  static uint32_t RowOf(Entry entry) { return entry >> 1; }

 private:
  friend class AutomatonBuilder;
  std::vector<Entry> entries_;
  uint32_t start_ = 0;
  uint32_t num_symbols_ = 0;
};

// The automata of one regular expression. First, the automaton of each look-around (of more than
// one character) reads the whole text. Then `matcher_` finds the matches. Immutable.
class AutomatonRegex {
 public:
  // Compiles the expression `root`. Returns null if automata cannot match the expression (for
  // example, because of a backreference), or if an automaton is too large.
  static std::unique_ptr<const AutomatonRegex> Create(const RegexNode& root);

  // Finds all matches, like Regex::FindAll(). Returns INVALID_ARGUMENT if the search takes too many
  // steps for the length of `text`.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  friend class RegexCompiler;
  class Search;
  using ConditionTable = std::array<uint8_t, SymbolMap::kSymbolsMax + 1>;
  struct LookAround {
    Automaton automaton;
    // True for a look-ahead, whose automaton reads the text backwards. False for a look-behind.
    bool is_ahead = false;
  };

  explicit AutomatonRegex(SymbolMap symbols) : symbols_(std::move(symbols)) {}

  SymbolMap symbols_;
  // Element `symbol` is a bit set. Bit i is 1 if condition i is a check of the last read character
  // and is true for the characters of the class `symbol`.
  ConditionTable after_reading_forwards_{}, after_reading_backwards_{};
  // True if transitions of `matcher_` depend on the bit set `conditions`
  bool has_conditions_ = false;
  // The look-arounds of more than one character, such as (?=ab). A look-around may contain
  // look-arounds with a lower index.
  std::vector<LookAround> look_arounds_;
  Automaton matcher_;
  // Automaton that reads the text backwards and finds all start positions of matches.
  std::optional<Automaton> starts_;
};

}  // namespace incipit
