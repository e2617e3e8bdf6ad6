// Executes regular expressions in linear time: as deterministic automata over classes of
// characters, computed when the tokenizer is loaded.
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

// The characters as an automaton sees them: those that all sets of an expression treat alike are
// one symbol. One more symbol is the edge of the text.
class SymbolMap {
 public:
  static constexpr size_t kSymbolsMax = 250;

  // Nothing if the sets tell more than kSymbolsMax kinds of characters apart.
  static std::optional<SymbolMap> Create(const std::vector<const CodePointSet*>& sets);

  uint8_t edge() const { return edge_; }
  uint32_t num_symbols() const { return edge_ + 1u; }
  // By symbol: whether the set has its characters. `with_edge` is the answer for the edge.
  std::vector<bool> Members(const CodePointSet& set, bool with_edge) const;

  // The symbol of the character at `position`, which moves behind it; the edge at the end.
  uint8_t Next(std::string_view text, size_t& position) const;
  // The symbol of the character that ends at `position`, which moves to its start.
  uint8_t Previous(std::string_view text, size_t& position) const;

 private:
  CodePointMap symbols_;
  std::array<uint8_t, 128> ascii_{};
  std::vector<char32_t> examples_;  // by symbol, without the edge
  uint8_t edge_ = 0;
};

// One deterministic automaton. Whether it reads a text forwards or backwards is the same to it.
// Beside the symbol that it reads, a step depends on conditions that hold at the place before it:
// bit i of `conditions` is condition i.
class Automaton {
 public:
  using Entry = uint32_t;  // where the step leads, and whether a match ends before it
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

// An expression as automata: one that matches, and one for every look-around that asks about more
// than one character; the answers of those are computed for a whole text beforehand. Immutable.
class AutomatonRegex {
 public:
  // Null for what no automaton of reasonable size can do: backreferences, atomic groups, large
  // counts, repetitions of what may match nothing.
  static std::unique_ptr<const AutomatonRegex> Create(const RegexNode& root);

  // As Regex::FindAll. Takes steps in proportion to the text; an expression that needs more gives
  // up.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  friend class RegexCompiler;
  class Search;
  using ConditionTable = std::array<uint8_t, SymbolMap::kSymbolsMax + 1>;
  struct LookAround {
    Automaton automaton;
    bool is_ahead = false;  // reads backwards
  };

  explicit AutomatonRegex(SymbolMap symbols) : symbols_(std::move(symbols)) {}

  SymbolMap symbols_;
  // Conditions that follow from the symbol read last, for automata of each direction.
  ConditionTable after_reading_forwards_{}, after_reading_backwards_{};
  bool has_conditions_ = false;           // of any kind, for the matcher
  std::vector<LookAround> look_arounds_;  // condition i is the answer of i; may ask those before it
  Automaton matcher_;
  std::optional<Automaton> starts_;  // tells, reading backwards, where matches begin
};

}  // namespace incipit
