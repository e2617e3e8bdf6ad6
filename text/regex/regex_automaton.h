// Matches regular expressions in linear time, with deterministic automata over classes of
// characters. The automata are computed when the tokenizer is loaded.
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

// Maps characters to symbols, the input of an automaton. Characters that belong to the same sets of
// an expression share a symbol. One additional symbol is the edge (start or end) of the text.
class SymbolMap {
 public:
  static constexpr size_t kSymbolsMax = 250;  // maximum number of symbols, without the edge

  // Creates the map for all sets of an expression. Returns nothing if the sets distinguish more
  // than kSymbolsMax kinds of characters.
  static std::optional<SymbolMap> Create(const std::vector<const CodePointSet*>& sets);

  uint8_t edge() const { return edge_; }
  uint32_t num_symbols() const { return edge_ + 1u; }
  // Returns, for each symbol, true if `set` contains the characters of the symbol. `with_edge` is
  // the value for the symbol of the edge.
  std::vector<bool> Members(const CodePointSet& set, bool with_edge) const;

  // Returns the symbol of the character at `position`, and moves `position` to the end of the
  // character. Returns the edge symbol at the end of the text.
  uint8_t Next(std::string_view text, size_t& position) const;
  // Returns the symbol of the character that ends at `position`, and moves `position` to the start
  // of the character. Returns the edge symbol at the start of the text.
  uint8_t Previous(std::string_view text, size_t& position) const;

 private:
  CodePointMap symbols_;
  std::array<uint8_t, 128> ascii_{};
  std::vector<char32_t> examples_;  // one character for each symbol except the edge
  uint8_t edge_ = 0;
};

// A deterministic automaton, which can read a text forwards or backwards. A step depends on the
// symbol that is read and on the conditions that hold at the position before the symbol. Bit i of
// `conditions` is 1 if condition i holds.
class Automaton {
 public:
  // The row of the next state, and one bit that is 1 if a match ends before the symbol.
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

// An expression as automata: one automaton that matches, and one automaton for each look-around
// that checks more than one character. The results of the look-arounds are computed for the whole
// text before matching begins. Immutable.
class AutomatonRegex {
 public:
  // Returns null if no automaton of limited size can match the expression. Examples are
  // backreferences, atomic groups, large counts, and repetition of an item that may match the empty
  // string.
  static std::unique_ptr<const AutomatonRegex> Create(const RegexNode& root);

  // Finds all matches, like Regex::FindAll(). The number of steps is limited in proportion to the
  // length of the text; a search that exceeds the limit returns INVALID_ARGUMENT.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  friend class RegexCompiler;
  class Search;
  using ConditionTable = std::array<uint8_t, SymbolMap::kSymbolsMax + 1>;
  struct LookAround {
    Automaton automaton;
    bool is_ahead = false;  // true for a look-ahead, which reads the text backwards
  };

  explicit AutomatonRegex(SymbolMap symbols) : symbols_(std::move(symbols)) {}

  SymbolMap symbols_;
  // For each symbol, one bit for each condition that holds after the symbol was read. The first
  // table is for automata that read forwards, and the second table is for automata that read
  // backwards.
  ConditionTable after_reading_forwards_{}, after_reading_backwards_{};
  bool has_conditions_ = false;  // true if the matcher has conditions of any kind
  // Condition i is the result of look-around i. Look-around i may use the conditions [0, i).
  std::vector<LookAround> look_arounds_;
  Automaton matcher_;
  std::optional<Automaton> starts_;  // reads backwards and finds the starts of matches
};

}  // namespace incipit
