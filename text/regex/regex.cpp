#include "text/regex/regex.h"

#include <utility>
#include <variant>

#include "base/status.h"
#include "text/regex/regex_automaton.h"
#include "text/regex/regex_backtracker.h"
#include "text/regex/regex_syntax.h"

namespace incipit {

class Regex::Program {
 public:
  using Automata = std::unique_ptr<const AutomatonRegex>;
  using Backtracker = std::unique_ptr<const BacktrackingRegex>;
  explicit Program(std::variant<Automata, Backtracker> executable)
      : executable_(std::move(executable)) {}

  absl::Status FindAll(std::string_view text, SpanSink sink) const {
    return std::visit([&](const auto& executable) { return executable->FindAll(text, sink); },
                      executable_);
  }

 private:
  std::variant<Automata, Backtracker> executable_;
};

Regex::Regex(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern, Engine engine) {
  INCIPIT_ASSIGN_OR_RETURN(const RegexNode root, ParseRegex(pattern));
  if (engine != Engine::kBacktracking) {
    auto automata = AutomatonRegex::Create(root);
    if (automata != nullptr) return Regex(std::make_unique<Program>(std::move(automata)));
    if (engine == Engine::kAutomaton) {
      return Unimplemented("the regular expression is too complex for an automaton");
    }
  }
  INCIPIT_ASSIGN_OR_RETURN(auto backtracker, BacktrackingRegex::Create(root));
  return Regex(std::make_unique<Program>(std::move(backtracker)));
}

absl::Status Regex::FindAll(std::string_view text, SpanSink sink) const {
  return program_->FindAll(text, sink);
}

absl::Status FindAllLiteral(std::string_view literal, std::string_view text, SpanSink sink) {
  size_t done = 0;
  for (size_t found = text.find(literal); found != text.npos; found = text.find(literal, done)) {
    if (done < found) INCIPIT_RETURN_IF_ERROR(sink({.begin = done, .end = found}));
    done = found + literal.size();
    INCIPIT_RETURN_IF_ERROR(sink({.begin = found, .end = done, .is_match = true}));
  }
  if (done < text.size() || text.empty()) return sink({.begin = done, .end = text.size()});
  return absl::OkStatus();
}

}  // namespace incipit
