// Compiles a parsed expression to automata. The first step is a program of small instructions
// (Thompson, "Regular Expression Search Algorithm"). The second step computes deterministic states:
// ordered lists of instructions, so that the first alternative has preference (Cox, "Regular
// Expression Matching in the Wild").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "text/regex/regex_automaton.h"
#include "text/regex/regex_syntax.h"

namespace incipit {

struct RegexInstruction {
  enum class Op : uint8_t {
    kRead,       // read a symbol of `members`
    kSplit,      // continue at `next` or, if that fails, at `other`
    kPeek,       // check that the next symbol is in `members`, without reading it
    kCondition,  // check that condition `condition` holds or, if `negative`, does not hold
    kMatch,
  };
  Op op = Op::kMatch;
  int32_t next = -1, other = -1;
  std::vector<bool> members = {};
  int32_t condition = 0;
  bool negative = false;
};
using RegexProgram = std::vector<RegexInstruction>;

// The condition that an automaton checks at each position of the text.
enum class AutomatonGoal : uint8_t {
  kMatchFromStart,  // the match that begins at the first symbol ends at the position
  kAnyMatch,        // any match ends at the position
};

// Builds the automaton of one program.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const RegexProgram& program, int32_t start, AutomatonGoal goal)
      : program_(program), start_(start), goal_(goal) {}
  // Builds the automaton. Returns nothing if the table of the automaton would be too large.
  std::optional<Automaton> Build(uint32_t num_symbols, uint32_t num_conditions);

 private:
  using State = std::vector<int32_t>;  // indices of next instructions, in order of preference

  int32_t StateIndex(const State& state);
  // Returns the kRead and kMatch instructions that `state` leads to before `symbol` if `conditions`
  // hold, in order of preference.
  State Resolve(const State& state, uint32_t symbol, uint32_t conditions) const;
  void ResolveFrom(int32_t pc, uint32_t symbol, uint32_t conditions, std::vector<bool>& seen,
                   State& resolved) const;
  Automaton::Entry Transition(int32_t state, uint32_t symbol, uint32_t conditions);

  const RegexProgram& program_;
  int32_t start_;
  AutomatonGoal goal_;
  uint32_t num_symbols_ = 0, row_size_ = 0;
  std::map<State, int32_t> index_of_;
  std::vector<State> states_;
};

// Compiles an expression and its look-arounds, and builds their automata.
class RegexCompiler {
 public:
  explicit RegexCompiler(SymbolMap symbols)
      : regex_(std::unique_ptr<AutomatonRegex>(new AutomatonRegex(std::move(symbols)))) {}
  std::unique_ptr<const AutomatonRegex> Compile(const RegexNode& root);

 private:
  enum class Direction : uint8_t { kForwards, kBackwards };
  struct Source {
    RegexProgram program;
    int32_t start = -1;
    Direction direction = Direction::kForwards;
  };

  Source CompileSource(const RegexNode& node, Direction direction);
  // The Emit functions append the instructions of `node`, which continue at instruction `next`. The
  // Emit functions return the index of the first instruction of `node`.
  int32_t Emit(const RegexNode& node, int32_t next, Source& source);
  int32_t EmitRepeat(const RegexNode& node, int32_t next, Source& source);
  int32_t EmitEdge(const RegexNode& node, int32_t next, Source& source);
  int32_t EmitLookAround(const RegexNode& node, int32_t next, Source& source);
  int32_t Add(RegexInstruction instruction, Source& source);
  std::optional<Automaton> Build(Source source, AutomatonGoal goal) const;
  void FillConditions(const std::vector<std::vector<bool>>& conditions,
                      AutomatonRegex::ConditionTable& table) const;

  std::unique_ptr<AutomatonRegex> regex_;
  bool failed_ = false;
  size_t num_instructions_ = 0;
  std::vector<Source> look_arounds_;
  std::map<const RegexNode*, int32_t> look_around_of_;
  // Conditions on the symbol read last, for programs that read forwards and backwards.
  std::vector<std::vector<bool>> forward_conditions_, backward_conditions_;
};

}  // namespace incipit
