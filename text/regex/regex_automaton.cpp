#include "text/regex/regex_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text/regex/regex_matches.h"
#include "text/regex/regex_program.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

void CollectSets(const RegexNode& node, std::vector<const CodePointSet*>& sets) {
  using Kind = RegexNode::Kind;
  if (node.kind == Kind::kSet || node.kind == Kind::kNext || node.kind == Kind::kPrevious) {
    sets.push_back(&node.set);
  }
  for (const RegexNode& child : node.children) CollectSets(child, sets);
}

constexpr size_t kNowhere = static_cast<size_t>(-1);

// A search returns an error after kStepsPerByteMax automaton steps for each byte of the text, plus
// kStepsMax steps. A step takes about 2 ns, so a search in 3 MiB of text takes at most about 0.1 s.
constexpr size_t kStepsPerByteMax = 16;
constexpr size_t kStepsMax = 1 << 22;
// A search counts the steps of its failed attempts to match. After kWastedStepsPerByteMax such
// steps per byte of the text, the search computes all start positions of matches with the automaton
// `starts_` (if there is one), and tries no other positions.
constexpr size_t kWastedStepsPerByteMax = 4;

}  // namespace

std::optional<SymbolMap> SymbolMap::Create(const std::vector<const CodePointSet*>& sets) {
  std::vector<char32_t> borders = {0};
  for (const CodePointSet* set : sets) {
    for (const CodePointRange& range : set->ranges()) {
      borders.push_back(range.first);
      borders.push_back(range.last + 1);
    }
  }
  std::ranges::sort(borders);
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  // `borders` divides all characters into ranges: each range begins at a border and ends before the
  // next border. All characters of a range are in the same sets. Ranges that are in the same sets
  // form one class of characters.
  SymbolMap map;
  std::map<std::vector<bool>, CodePointSet> alike;
  std::vector<size_t> cursors(sets.size(), 0);
  for (size_t i = 0; i < borders.size() && borders[i] <= kCodePointMax; ++i) {
    std::vector<bool> signature(sets.size());
    for (size_t k = 0; k < sets.size(); ++k) {
      const auto& ranges = sets[k]->ranges();
      while (cursors[k] < ranges.size() && ranges[cursors[k]].last < borders[i]) ++cursors[k];
      signature[k] = cursors[k] < ranges.size() && ranges[cursors[k]].first <= borders[i];
    }
    const char32_t last = i + 1 < borders.size() ? borders[i + 1] - 1 : kCodePointMax;
    alike[signature].Add(borders[i], last);
  }
  if (alike.size() > kSymbolsMax) return std::nullopt;
  for (const auto& [signature, set] : alike) {
    const auto symbol = static_cast<uint8_t>(map.examples_.size());
    map.examples_.push_back(set.ranges()[0].first);
    // The characters of class 0 need no assignment, because 0 is the initial value of all
    // characters.
    if (symbol > 0) map.symbols_.Assign(set, symbol);
  }
  for (size_t c = 0; c < map.ascii_.size(); ++c) map.ascii_[c] = map.symbols_[c];
  map.edge_ = static_cast<uint8_t>(map.examples_.size());
  return map;
}

std::vector<bool> SymbolMap::Members(const CodePointSet& set, bool with_edge) const {
  std::vector<bool> members;
  for (const char32_t example : examples_) members.push_back(set.Contains(example));
  members.push_back(with_edge);
  return members;
}

uint8_t SymbolMap::Next(std::string_view text, size_t& position) const {
  if (position == text.size()) return edge_;
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) {
    ++position;
    return ascii_[byte];
  }
  return symbols_[NextCodePoint(text, position)];
}

uint8_t SymbolMap::Previous(std::string_view text, size_t& position) const {
  if (position == 0) return edge_;
  position = PreviousCharacter(text, position);
  size_t character = position;
  return Next(text, character);
}

std::unique_ptr<const AutomatonRegex> AutomatonRegex::Create(const RegexNode& root) {
  std::vector<const CodePointSet*> sets;
  CollectSets(root, sets);
  auto symbols = SymbolMap::Create(sets);
  if (!symbols) return nullptr;
  return RegexCompiler(*std::move(symbols)).Compile(root);
}

class AutomatonRegex::Search {
 public:
  Search(const AutomatonRegex& regex, std::string_view text)
      : regex_(regex), text_(text), steps_left_(kStepsMax + kStepsPerByteMax * text.size()) {
    if (regex.look_arounds_.empty()) return;
    conditions_.resize(text.size() + 1);
    for (size_t i = 0; i < regex.look_arounds_.size(); ++i) {
      const auto bit = static_cast<uint8_t>(1u << i);
      const LookAround& look = regex.look_arounds_[i];
      const auto mark = [&](size_t position) { conditions_[position] |= bit; };
      if (look.is_ahead) {
        ReadBackwards(look.automaton, mark);
      } else {
        ReadForwards(look.automaton, mark);
      }
    }
  }

  // Finds the first match that begins at or after the byte offset `from`, and writes its range to
  // `match`. Returns false if there is no match.
  bool Find(size_t from, Span& match) {
    for (size_t begin = from; !has_given_up();) {
      const size_t end = MatchFrom(begin);
      if (end != kNowhere) {
        match = {.begin = begin, .end = end, .is_match = true};
        return true;
      }
      if (begin == text_.size()) return false;
      begin = NextStart(begin + Utf8Length(text_[begin]));
      if (begin == kNowhere) return false;
    }
    return false;
  }

  bool has_given_up() const { return steps_left_ == 0; }

 private:
  uint32_t ConditionsAt(size_t position) const {
    return conditions_.empty() ? 0 : conditions_[position];
  }

  // Returns the end of the match that begins at the byte offset `begin`. Returns kNowhere if no
  // match begins there.
  size_t MatchFrom(size_t begin) {
    size_t end = kNowhere;
    size_t position = begin;
    uint32_t row = regex_.matcher_.start();
    if (!regex_.has_conditions_) {
      while (row != Automaton::kDeadRow) {
        const size_t here = position;
        const uint8_t symbol = regex_.symbols_.Next(text_, position);
        const Automaton::Entry entry = regex_.matcher_.Step(row, symbol, 0);
        if (Automaton::HasMatched(entry)) end = here;
        row = Automaton::RowOf(entry);
      }
    } else {
      size_t before = begin;
      uint8_t last = regex_.symbols_.Previous(text_, before);
      while (row != Automaton::kDeadRow) {
        const size_t here = position;
        const uint8_t symbol = regex_.symbols_.Next(text_, position);
        const uint32_t conditions = ConditionsAt(here) | regex_.after_reading_forwards_[last];
        const Automaton::Entry entry = regex_.matcher_.Step(row, symbol, conditions);
        if (Automaton::HasMatched(entry)) end = here;
        row = Automaton::RowOf(entry);
        last = symbol;
      }
    }
    const size_t steps = position - begin + 1;
    steps_left_ -= std::min(steps, steps_left_);
    if (end == kNowhere) wasted_steps_ += steps;
    return end;
  }

  // Returns the first byte offset at or after `position` at which a match may begin. Returns
  // kNowhere if no such offset exists.
  size_t NextStart(size_t position) {
    if (starts_.empty()) {
      if (!regex_.starts_ || wasted_steps_ <= kWastedStepsPerByteMax * text_.size()) {
        return position;
      }
      starts_.resize(text_.size() + 1);
      ReadBackwards(*regex_.starts_, [&](size_t start) { starts_[start] = true; });
    }
    const auto found =
        std::find(starts_.begin() + static_cast<ptrdiff_t>(position), starts_.end(), true);
    return found == starts_.end() ? kNowhere : static_cast<size_t>(found - starts_.begin());
  }

  // Reads the text backwards with `automaton`. Calls `mark(position)` for each position at which
  // the automaton finds a match.
  template <typename Mark>
  void ReadBackwards(const Automaton& automaton, Mark mark) {
    uint32_t row = automaton.start();
    uint8_t last = regex_.symbols_.edge();
    for (size_t position = text_.size();;) {
      const size_t here = position;
      const uint8_t symbol = regex_.symbols_.Previous(text_, position);
      const uint32_t conditions = ConditionsAt(here) | regex_.after_reading_backwards_[last];
      const Automaton::Entry entry = automaton.Step(row, symbol, conditions);
      if (Automaton::HasMatched(entry)) mark(here);
      if (here == 0) return;
      row = Automaton::RowOf(entry);
      last = symbol;
    }
  }

  template <typename Mark>
  void ReadForwards(const Automaton& automaton, Mark mark) {
    uint32_t row = automaton.start();
    uint8_t last = regex_.symbols_.edge();
    for (size_t position = 0;;) {
      const size_t here = position;
      const uint8_t symbol = regex_.symbols_.Next(text_, position);
      const uint32_t conditions = ConditionsAt(here) | regex_.after_reading_forwards_[last];
      const Automaton::Entry entry = automaton.Step(row, symbol, conditions);
      if (Automaton::HasMatched(entry)) mark(here);
      if (here == text_.size()) return;
      row = Automaton::RowOf(entry);
      last = symbol;
    }
  }

  const AutomatonRegex& regex_;
  std::string_view text_;
  // Bit i of conditions_[position] is 1 if the content of look-around i matches at this position of
  // the text. The content is, for example, `ab` in (?=ab) or (?!ab). Empty if the expression has no
  // look-around of more than one character.
  std::vector<uint8_t> conditions_;
  // starts_[position] is true if a match begins at `position`. Empty until NextStart() has computed
  // all start positions.
  std::vector<bool> starts_;
  size_t steps_left_;
  size_t wasted_steps_ = 0;
};

absl::Status AutomatonRegex::FindAll(std::string_view text, SpanSink sink) const {
  Search search(*this, text);
  return VisitMatches(text, search, sink);
}

}  // namespace incipit
