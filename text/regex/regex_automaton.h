// Finds matches of regular expressions in linear time with deterministic finite automata. An
// automaton reads symbols, which stand for sets of characters. The automata are built when the
// tokenizer is loaded.
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

// Maps characters to symbols, the input of the automata. Two characters have the same symbol if
// every set in the expression contains both or neither. The edge symbol stands for the start and
// the end of the text.
class SymbolMap {
 public:
  // Maximum number of symbols that stand for characters.
  static constexpr size_t kSymbolsMax = 250;

  // Creates the map for a regular expression whose character sets are `sets`. Returns nothing if
  // the map would need more than kSymbolsMax symbols for characters.
  static std::optional<SymbolMap> Create(const std::vector<const CodePointSet*>& sets);

  uint8_t edge() const { return edge_; }
  uint32_t num_symbols() const { return edge_ + 1u; }
  // Returns one element for each symbol: true if `set` contains the characters with this symbol.
  // The last element, for the edge symbol (start or end of the text), is `with_edge`.
  std::vector<bool> Members(const CodePointSet& set, bool with_edge) const;

  // Returns the symbol of the character that begins at `position`, and moves `position` to the end
  // of this character. At the end of the text, returns edge().
  uint8_t Next(std::string_view text, size_t& position) const;
  // Returns the symbol of the character that ends at `position`, and moves `position` to the start
  // of this character. At the start of the text, returns edge().
  uint8_t Previous(std::string_view text, size_t& position) const;

 private:
  CodePointMap symbols_;
  std::array<uint8_t, 128> ascii_{};
  // Element i is one of the characters with the symbol i.
  std::vector<char32_t> examples_;
  uint8_t edge_ = 0;
};

// A deterministic finite automaton. The next state depends on the state, on the next symbol, and on
// the bit set `conditions`. Bit i is 1 if condition i (such as a look-around) holds at the current
// position of the text.
class Automaton {
 public:
  // The transition from one state with one symbol and one value of `conditions`. Bit 0 is 1 if a
  // match ends directly before the symbol. The other bits are the index in `entries_` at which the
  // entries of the next state begin.
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

// The automata of one regular expression. The automaton `matcher_` finds matches of the whole
// expression. A look-around of more than one character has its own automaton, which reads the whole
// text before `matcher_`. Immutable.
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
  // Element `symbol` is a bit set. Bit i is 1 if condition i is true directly after an automaton
  // has read the symbol. The first table is for reading forwards, the second for reading backwards.
  ConditionTable after_reading_forwards_{}, after_reading_backwards_{};
  bool has_conditions_ = false;  // true if `matcher_` depends on a condition
  // Condition i is true if the content of look-around i, such as `ab` in (?=ab) or (?!ab), matches.
  // A look-around may contain look-arounds with a lower index.
  std::vector<LookAround> look_arounds_;
  Automaton matcher_;
  // Automaton that reads the text backwards and finds all start positions of matches.
  std::optional<Automaton> starts_;
};

}  // namespace incipit
