#include "text/regex/regex_program.h"

#include <algorithm>
#include <utility>

namespace incipit {
namespace {

using Op = RegexInstruction::Op;
using Kind = RegexNode::Kind;

constexpr size_t kInstructionsMax = 4096;
constexpr size_t kAutomatonEntriesMax = 1 << 16;
// Maximum number of conditions of an automaton. A condition is a look-around, or a check of the
// last read character. With n conditions, the automaton has 2^n table entries for each state and
// each class of characters.
constexpr size_t kConditionsMax = 5;
// During compilation, the conditions on the last read character have the numbers from this value.
// RegexCompiler::Build() renumbers these conditions: they follow the look-arounds.
constexpr int32_t kFirstCharacterCondition = 1 << 16;

bool MayMatchNothing(const RegexNode& node) {
  switch (node.kind) {
    case Kind::kSet:
      return false;
    case Kind::kConcat:
      return std::ranges::all_of(node.children, MayMatchNothing);
    case Kind::kAlternate:
      return std::ranges::any_of(node.children, MayMatchNothing);
    case Kind::kRepeat:
      return node.min == 0 || MayMatchNothing(node.children[0]);
    case Kind::kCapture:
    case Kind::kAtomic:
      return MayMatchNothing(node.children[0]);
    default:
      return true;
  }
}

}  // namespace

std::optional<Automaton> AutomatonBuilder::Build(uint32_t num_symbols, uint32_t num_conditions) {
  num_symbols_ = num_symbols;
  row_size_ = num_symbols << num_conditions;
  // Create the dead state, which has no instructions. No match is possible from this state.
  StateIndex({});
  Automaton automaton;
  automaton.num_symbols_ = num_symbols;
  automaton.start_ = static_cast<uint32_t>(StateIndex({start_})) * row_size_;
  for (int32_t state = 0; static_cast<size_t>(state) < states_.size(); ++state) {
    if (states_.size() * row_size_ > kAutomatonEntriesMax) return std::nullopt;
    for (uint32_t conditions = 0; conditions < 1u << num_conditions; ++conditions) {
      for (uint32_t symbol = 0; symbol < num_symbols; ++symbol) {
        automaton.entries_.push_back(Transition(state, symbol, conditions));
      }
    }
  }
  return automaton;
}

int32_t AutomatonBuilder::StateIndex(const State& state) {
  const auto [found, is_new] = index_of_.emplace(state, static_cast<int32_t>(states_.size()));
  if (is_new) states_.push_back(state);
  return found->second;
}

AutomatonBuilder::State AutomatonBuilder::Resolve(const State& state, uint32_t symbol,
                                                  uint32_t conditions) const {
  State resolved;
  std::vector<bool> seen(program_.size());
  for (const int32_t pc : state) ResolveFrom(pc, symbol, conditions, seen, resolved);
  return resolved;
}

void AutomatonBuilder::ResolveFrom(int32_t pc, uint32_t symbol, uint32_t conditions,
                                   std::vector<bool>& seen, State& resolved) const {
  std::vector<int32_t> pending = {pc};
  while (!pending.empty()) {
    const int32_t current = pending.back();
    pending.pop_back();
    if (seen[current]) continue;
    seen[current] = true;
    const RegexInstruction& instruction = program_[current];
    switch (instruction.op) {
      case Op::kRead:
      case Op::kMatch:
        resolved.push_back(current);
        break;
      case Op::kSplit:
        pending.push_back(instruction.other);
        pending.push_back(instruction.next);
        break;
      case Op::kPeek:
        if (instruction.members[symbol]) pending.push_back(instruction.next);
        break;
      case Op::kCondition: {
        const bool holds = (conditions >> instruction.condition & 1) != 0;
        if (holds != instruction.negative) pending.push_back(instruction.next);
        break;
      }
    }
  }
}

Automaton::Entry AutomatonBuilder::Transition(int32_t state, uint32_t symbol, uint32_t conditions) {
  State next;
  std::vector<bool> seen(program_.size());
  const auto add = [&](int32_t pc) {
    if (!seen[pc]) next.push_back(pc);
    seen[pc] = true;
  };
  bool has_matched = false;
  for (const int32_t pc : Resolve(states_[state], symbol, conditions)) {
    const RegexInstruction& instruction = program_[pc];
    if (instruction.op == Op::kMatch) {
      has_matched = true;
      // For kMatchFromStart, ignore the remaining instructions, because they lead to matches of
      // lower priority.
      if (goal_ == AutomatonGoal::kMatchFromStart) break;
    } else if (instruction.members[symbol]) {
      add(instruction.next);
    }
  }
  if (goal_ == AutomatonGoal::kAnyMatch && state != 0) add(start_);
  return static_cast<uint32_t>(StateIndex(next)) * row_size_ << 1 | (has_matched ? 1u : 0u);
}

RegexCompiler::Source RegexCompiler::CompileSource(const RegexNode& node, Direction direction) {
  Source source{.program = {}, .direction = direction};
  const int32_t match = Add({.op = Op::kMatch}, source);
  source.start = Emit(node, match, source);
  return source;
}

int32_t RegexCompiler::Add(RegexInstruction instruction, Source& source) {
  if (++num_instructions_ > kInstructionsMax) {
    failed_ = true;
    return 0;
  }
  source.program.push_back(std::move(instruction));
  return static_cast<int32_t>(source.program.size()) - 1;
}

int32_t RegexCompiler::Emit(const RegexNode& node, int32_t next, Source& source) {
  if (failed_) return 0;
  switch (node.kind) {
    case Kind::kEmpty:
      return next;
    case Kind::kSet:
      return Add({.op = Op::kRead,
                  .next = next,
                  .members = regex_->symbols_.Members(node.set, /*with_edge=*/false)},
                 source);
    case Kind::kConcat:
      if (source.direction == Direction::kForwards) {
        for (size_t i = node.children.size(); i-- > 0;) {
          next = Emit(node.children[i], next, source);
        }
      } else {
        for (const RegexNode& child : node.children) next = Emit(child, next, source);
      }
      return next;
    case Kind::kAlternate: {
      int32_t begin = Emit(node.children.back(), next, source);
      for (size_t i = node.children.size() - 1; i-- > 0;) {
        const int32_t preferred = Emit(node.children[i], next, source);
        begin = Add({.op = Op::kSplit, .next = preferred, .other = begin}, source);
      }
      return begin;
    }
    case Kind::kRepeat:
      return EmitRepeat(node, next, source);
    case Kind::kCapture:
      return Emit(node.children[0], next, source);
    case Kind::kNext:
    case Kind::kPrevious:
      return EmitEdge(node, next, source);
    case Kind::kLookAhead:
    case Kind::kLookBehind:
      return EmitLookAround(node, next, source);
    case Kind::kAtomic:
    case Kind::kBackreference:
      break;
  }
  failed_ = true;
  return 0;
}

int32_t RegexCompiler::EmitRepeat(const RegexNode& node, int32_t next, Source& source) {
  const RegexNode& child = node.children[0];
  const auto add_split = [&](int32_t again, int32_t leave) {
    RegexInstruction split{.op = Op::kSplit, .next = again, .other = leave};
    if (node.greed == RegexNode::Greed::kLazy) std::swap(split.next, split.other);
    return Add(std::move(split), source);
  };
  int32_t begin = next;
  int num_required = node.min;
  if (node.max < 0) {
    // Automata do not support unlimited repetition of an item that can match the empty string. Such
    // a repetition must stop after an empty match, but a state does not store whether the last
    // match was empty.
    if (MayMatchNothing(child)) {
      failed_ = true;
      return 0;
    }
    const int32_t split = add_split(-1, next);
    begin = Emit(child, split, source);
    if (failed_) return 0;
    RegexInstruction& again = source.program[split];
    (node.greed == RegexNode::Greed::kLazy ? again.other : again.next) = begin;
    if (num_required == 0) return add_split(begin, next);
    --num_required;
  } else {
    for (int i = node.min; i < node.max && !failed_; ++i) {
      begin = add_split(Emit(child, begin, source), next);
    }
  }
  for (int i = 0; i < num_required && !failed_; ++i) begin = Emit(child, begin, source);
  return begin;
}

// Appends an instruction that checks the next character (if `node` is kNext) or the previous
// character (if `node` is kPrevious).
int32_t RegexCompiler::EmitEdge(const RegexNode& node, int32_t next, Source& source) {
  const bool is_forwards = source.direction == Direction::kForwards;
  std::vector<bool> members = regex_->symbols_.Members(node.set, node.at_edge);
  if ((node.kind == Kind::kNext) == is_forwards) {
    return Add({.op = Op::kPeek, .next = next, .members = std::move(members)}, source);
  }
  auto& conditions = is_forwards ? forward_conditions_ : backward_conditions_;
  auto found = std::ranges::find(conditions, members);
  if (found == conditions.end()) found = conditions.insert(found, std::move(members));
  const auto index = static_cast<int32_t>(found - conditions.begin());
  return Add({.op = Op::kCondition, .next = next, .condition = kFirstCharacterCondition + index},
             source);
}

int32_t RegexCompiler::EmitLookAround(const RegexNode& node, int32_t next, Source& source) {
  auto known = look_around_of_.find(&node);
  if (known == look_around_of_.end()) {
    const bool is_ahead = node.kind == Kind::kLookAhead;
    Source content =
        CompileSource(node.children[0], is_ahead ? Direction::kBackwards : Direction::kForwards);
    if (failed_ || look_arounds_.size() == kConditionsMax) {
      failed_ = true;
      return 0;
    }
    known = look_around_of_.emplace(&node, static_cast<int32_t>(look_arounds_.size())).first;
    look_arounds_.push_back(std::move(content));
  }
  return Add(
      {.op = Op::kCondition, .next = next, .condition = known->second, .negative = node.negative},
      source);
}

std::optional<Automaton> RegexCompiler::Build(Source source, AutomatonGoal goal) const {
  const bool is_forwards = source.direction == Direction::kForwards;
  const auto num_looks = static_cast<int32_t>(look_arounds_.size());
  const size_t num_conditions =
      num_looks + (is_forwards ? forward_conditions_ : backward_conditions_).size();
  if (num_conditions > kConditionsMax) return std::nullopt;
  for (RegexInstruction& instruction : source.program) {
    if (instruction.condition >= kFirstCharacterCondition) {
      instruction.condition += num_looks - kFirstCharacterCondition;
    }
  }
  return AutomatonBuilder(source.program, source.start, goal)
      .Build(regex_->symbols_.num_symbols(), static_cast<uint32_t>(num_conditions));
}

void RegexCompiler::FillConditions(const std::vector<std::vector<bool>>& conditions,
                                   AutomatonRegex::ConditionTable& table) const {
  for (size_t i = 0; i < conditions.size(); ++i) {
    for (uint32_t symbol = 0; symbol < regex_->symbols_.num_symbols(); ++symbol) {
      if (conditions[i][symbol]) {
        table[symbol] = static_cast<uint8_t>(table[symbol] | 1u << (look_arounds_.size() + i));
      }
    }
  }
}

std::unique_ptr<const AutomatonRegex> RegexCompiler::Compile(const RegexNode& root) {
  const Source matcher = CompileSource(root, Direction::kForwards);
  const Source starts = CompileSource(root, Direction::kBackwards);
  if (failed_) return nullptr;
  for (const Source& source : look_arounds_) {
    auto automaton = Build(source, AutomatonGoal::kAnyMatch);
    if (!automaton) return nullptr;
    regex_->look_arounds_.push_back({.automaton = *std::move(automaton),
                                     .is_ahead = source.direction == Direction::kBackwards});
  }
  auto automaton = Build(matcher, AutomatonGoal::kMatchFromStart);
  if (!automaton) return nullptr;
  regex_->matcher_ = *std::move(automaton);
  regex_->starts_ = Build(starts, AutomatonGoal::kAnyMatch);
  FillConditions(forward_conditions_, regex_->after_reading_forwards_);
  FillConditions(backward_conditions_, regex_->after_reading_backwards_);
  regex_->has_conditions_ = !look_arounds_.empty() || !forward_conditions_.empty();
  return std::move(regex_);
}

}  // namespace incipit
