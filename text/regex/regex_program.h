// Compiles a parsed regular expression to automata, in two stages. The first stage generates a
// program of simple instructions (Thompson, "Regular Expression Search Algorithm"). The second
// stage converts the program to a deterministic automaton. Each state of the automaton is a list of
// instructions, in order of preference (Cox, "Regular Expression Matching in the Wild").
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
    kRead,   // reads one character, whose class (see SymbolMap) must be in `members`
    kSplit,  // tries the instruction `next` first, then the instruction `other`
    kPeek,   // checks that the class of the next character is in `members`, but does not read it
    // Checks a look-around or the last read character. `condition` is the number of this check. If
    // `negative` is true, the check must fail.
    kCondition,
    kMatch,
  };
  Op op = Op::kMatch;
  int32_t next = -1, other = -1;
  std::vector<bool> members = {};
  int32_t condition = 0;
  bool negative = false;
};
using RegexProgram = std::vector<RegexInstruction>;

// The matches that an automaton finds. For each match, the automaton reports only the position at
// which the match ends.
enum class AutomatonGoal : uint8_t {
  kMatchFromStart,  // finds only matches that begin where the automaton starts to read
  kAnyMatch,        // finds matches that begin at any position
};

// Builds the automaton of one program.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const RegexProgram& program, int32_t start, AutomatonGoal goal)
      : program_(program), start_(start), goal_(goal) {}
  // Builds the automaton. Returns nothing if its table would be too large.
  std::optional<Automaton> Build(uint32_t num_symbols, uint32_t num_conditions);

 private:
  // An automaton state: the possible next instructions, in order of preference.
  using State = std::vector<int32_t>;

  int32_t StateIndex(const State& state);
  // Returns the kRead and kMatch instructions that the program can reach from `state` without
  // reading a character, in order of preference. `symbol` is the class of the next character. Bit i
  // of `conditions` is 1 if check i succeeds.
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

// Compiles a regular expression to automata: one for the expression, and one for each look-around.
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
  // Appends the instructions of `node` to `source`, and returns the index of the first of these
  // instructions. After a match of `node`, the program continues at the instruction with the index
  // `next`.
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
  // Results of character checks: element [i][symbol] is true if the characters of the class
  // `symbol` pass check i. A program that reads forwards checks the character before its position
  // in the text (`forward_conditions_`). A program that reads backwards checks the character after
  // its position in the text (`backward_conditions_`).
  std::vector<std::vector<bool>> forward_conditions_, backward_conditions_;
};

}  // namespace incipit
