#include "text/jinja/resolver.h"

#include <limits>
#include <map>
#include <utility>

#include "base/status.h"
#include "text/jinja/ast_walk.h"
#include "text/jinja/builtins.h"
#include "text/jinja/certain_kind.h"
#include "text/jinja/methods.h"
#include "text/jinja/symbols.h"

namespace incipit::jinja {
namespace {

constexpr size_t kSlotsMax = std::numeric_limits<uint16_t>::max();
// The one global function of Jinja2 that is not here.
constexpr std::string_view kRefusedFunction = "lipsum";

class Resolver {
 public:
  absl::Status Run(Program& program) {
    functions_.push_back({.first_level = 0, .slots = {}});
    Symbols symbols(nullptr, 0);
    symbols.Visit(program.body);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, program.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(program.body, symbols, false));
    program.num_slots = PopFunction();
    if (refused_call_line_ == 0 || assigns_refused_) return absl::OkStatus();
    return Unimplemented("chat template line {}: the function '{}' is not supported",
                         refused_call_line_, kRefusedFunction);
  }

 private:
  struct Function {
    int first_level;  // of the outermost scope that belongs to it
    std::map<std::pair<int, std::string>, uint16_t> slots;
  };

  void PushFunction(const Symbols& scope) {
    functions_.push_back({.first_level = scope.level(), .slots = {}});
  }
  uint16_t PopFunction() {
    const size_t num_slots = functions_.back().slots.size();
    functions_.pop_back();
    return static_cast<uint16_t>(num_slots);
  }

  absl::StatusOr<SlotRef> SlotOf(int level, const std::string& name) {
    size_t index = functions_.size() - 1;
    while (functions_[index].first_level > level) --index;
    auto& slots = functions_[index].slots;
    if (slots.size() >= kSlotsMax) {
      return InvalidArgument("the chat template has more than {} variables", kSlotsMax);
    }
    const auto it = slots.try_emplace({level, name}, static_cast<uint16_t>(slots.size())).first;
    return SlotRef{static_cast<uint16_t>(functions_.size() - 1 - index), it->second};
  }

  absl::StatusOr<SlotRef> SlotOf(const std::string& name, const Symbols& symbols, int line) {
    const std::optional<int> level = symbols.FindRef(name);
    if (!level) {
      return InvalidArgument("chat template line {}: the name '{}' is not known to this scope",
                             line, name);
    }
    return SlotOf(*level, name);
  }

  absl::Status BuildScope(const Symbols& symbols, Scope& scope) {
    for (const auto& [name, load] : symbols.loads()) {
      ScopeLoad entry{.source = load.source, .slot = 0, .outer = {}, .name = name};
      INCIPIT_ASSIGN_OR_RETURN(const SlotRef slot, SlotOf(symbols.level(), name));
      entry.slot = slot.slot;
      if (load.source == ScopeLoad::Source::kOuter) {
        INCIPIT_ASSIGN_OR_RETURN(entry.outer, SlotOf(load.outer_level, name));
      }
      scope.loads.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  // `soft`: a filter or test that does not exist is an error only when it is reached.
  absl::Status ResolveExpr(Expr& expr, const Symbols& symbols, bool soft) {
    switch (expr.kind) {
      case ExprKind::kName: {
        auto& name = static_cast<NameExpr&>(expr);
        if (name.context != NameContext::kLoad) NoteAssigned(name.name);
        if (num_loops_ > 0 && name.context == NameContext::kStore && name.name == "loop") {
          return InvalidArgument(
              "chat template line {}: the special variable 'loop' cannot be assigned in a loop",
              name.line);
        }
        INCIPIT_ASSIGN_OR_RETURN(name.slot, SlotOf(name.name, symbols, name.line));
        return absl::OkStatus();
      }
      case ExprKind::kNamespaceRef: {
        auto& ref = static_cast<NamespaceRefExpr&>(expr);
        INCIPIT_ASSIGN_OR_RETURN(ref.slot, SlotOf(ref.name, symbols, ref.line));
        return absl::OkStatus();
      }
      case ExprKind::kFilter: {
        auto& filter = static_cast<FilterExpr&>(expr);
        filter.function = FindFilter(filter.name);
        if (filter.function == nullptr) {
          INCIPIT_RETURN_IF_ERROR(CheckMissing("filter", filter.name, filter.line, soft));
        }
        INCIPIT_RETURN_IF_ERROR(CheckMap(filter));
        break;
      }
      case ExprKind::kCall:
        INCIPIT_RETURN_IF_ERROR(CheckCall(static_cast<const CallExpr&>(expr)));
        break;
      case ExprKind::kTest: {
        auto& test = static_cast<TestExpr&>(expr);
        test.function = FindTest(test.name);
        if (test.function == nullptr) {
          INCIPIT_RETURN_IF_ERROR(CheckMissing("test", test.name, test.line, soft));
        }
        break;
      }
      case ExprKind::kCondition:
        soft = true;
        break;
      default:
        break;
    }
    absl::Status status;
    ForEachChild(expr, [&](Expr& child) {
      if (status.ok()) status = ResolveExpr(child, symbols, soft);
    });
    return status;
  }

  absl::Status CheckMissing(std::string_view kind, const std::string& name, int line, bool soft) {
    if (kind == "filter" && IsRefusedFilter(name)) {
      return Unimplemented("chat template line {}: the filter '{}' is not supported", line, name);
    }
    if (soft) return absl::OkStatus();
    return InvalidArgument("chat template line {}: no {} named '{}'", line, kind, name);
  }

  // What cannot work whatever the template is given is refused before it is given anything.
  static absl::Status CheckMap(const FilterExpr& filter) {
    const auto& arguments = filter.arguments.positional;
    if (filter.name != "map" || arguments.empty() || arguments[0]->kind != ExprKind::kConst) {
      return absl::OkStatus();
    }
    const Value& name = static_cast<const ConstExpr&>(*arguments[0]).value;
    if (!name.is_string() || !IsRefusedFilter(name.bytes())) return absl::OkStatus();
    return Unimplemented("chat template line {}: the filter '{}' is not supported", filter.line,
                         name.bytes());
  }

  absl::Status CheckCall(const CallExpr& call) {
    if (call.callee->kind == ExprKind::kName &&
        static_cast<const NameExpr&>(*call.callee).name == kRefusedFunction &&
        refused_call_line_ == 0) {
      refused_call_line_ = call.line;  // unless the template has one of its own
    }
    if (call.callee->kind != ExprKind::kGetAttribute) return absl::OkStatus();
    const auto& callee = static_cast<const GetAttributeExpr&>(*call.callee);
    const std::optional<Kind> kind = CertainKind(*callee.object);
    if (!kind) return absl::OkStatus();
    const std::string_view name = callee.attribute.bytes();
    const NamedBuiltin* method = FindMethod(*kind, name);
    // The reference raises for those that change a list or a dict, but only once they are reached.
    if (method == nullptr || method->function != nullptr || IsMutatingMethod(*kind, name)) {
      return absl::OkStatus();
    }
    return Unimplemented("chat template line {}: the method '{}' is not supported", call.line,
                         name);
  }

  void NoteAssigned(std::string_view name) {
    assigns_refused_ = assigns_refused_ || name == kRefusedFunction;
  }

  absl::Status ResolveBody(Body& body, const Symbols& symbols, bool soft) {
    for (const StmtPtr& statement : body) {
      INCIPIT_RETURN_IF_ERROR(ResolveStatement(*statement, symbols, soft));
    }
    return absl::OkStatus();
  }

  absl::Status ResolveAll(const std::vector<ExprPtr>& exprs, const Symbols& symbols, bool soft) {
    for (const ExprPtr& expr : exprs) {
      INCIPIT_RETURN_IF_ERROR(ResolveExpr(*expr, symbols, soft));
    }
    return absl::OkStatus();
  }

  absl::Status ResolveStatement(Stmt& statement, const Symbols& symbols, bool soft) {
    switch (statement.kind) {
      case StmtKind::kOutput:
        return ResolveAll(static_cast<OutputStmt&>(statement).items, symbols, soft);
      case StmtKind::kIf:
        return ResolveIf(static_cast<IfStmt&>(statement), symbols);
      case StmtKind::kFor:
        return ResolveFor(static_cast<ForStmt&>(statement), symbols, soft);
      case StmtKind::kSet: {
        auto& node = static_cast<SetStmt&>(statement);
        INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.target, symbols, soft));
        return ResolveExpr(*node.value, symbols, soft);
      }
      case StmtKind::kSetBlock:
        return ResolveSetBlock(static_cast<SetBlockStmt&>(statement), symbols, soft);
      case StmtKind::kMacro: {
        auto& node = static_cast<MacroStmt&>(statement);
        NoteAssigned(node.code.name);
        INCIPIT_ASSIGN_OR_RETURN(node.slot, SlotOf(node.code.name, symbols, node.line));
        return ResolveMacro(node.code, symbols, node.line);
      }
      case StmtKind::kCallBlock: {
        auto& node = static_cast<CallBlockStmt&>(statement);
        INCIPIT_RETURN_IF_ERROR(ResolveMacro(node.code, symbols, node.line));
        return node.call == nullptr ? absl::OkStatus() : ResolveExpr(*node.call, symbols, soft);
      }
      case StmtKind::kFilterBlock:
        return ResolveFilterBlock(static_cast<FilterBlockStmt&>(statement), symbols);
      case StmtKind::kWith:
        return ResolveWith(static_cast<WithStmt&>(statement), symbols, soft);
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status ResolveIf(IfStmt& node, const Symbols& symbols) {
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.test, symbols, true));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, true));
    for (const auto& branch : node.elifs) {
      INCIPIT_RETURN_IF_ERROR(ResolveIf(*branch, symbols));
    }
    return ResolveBody(node.otherwise, symbols, true);
  }

  absl::Status ResolveFor(ForStmt& node, const Symbols& outer, bool soft) {
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.iterable, outer, soft));
    ++num_loops_;
    if (node.test != nullptr) INCIPIT_RETURN_IF_ERROR(ResolveLoopTest(node, outer));
    Symbols symbols(&outer, outer.level() + 1);
    const bool uses_loop = node.recursive || !FindUndeclared(node.body, {"loop"}).empty();
    if (uses_loop) symbols.DeclareParameter("loop");
    symbols.Visit(*node.target, true);
    symbols.Visit(node.body);
    if (node.recursive) PushFunction(symbols);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    if (uses_loop) {
      INCIPIT_ASSIGN_OR_RETURN(node.loop_slot, SlotOf(symbols.level(), "loop"));
    }
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.target, symbols, false));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, false));
    if (!node.otherwise.empty()) {
      Symbols otherwise(&outer, outer.level() + 1);
      otherwise.Visit(node.otherwise);
      INCIPIT_RETURN_IF_ERROR(BuildScope(otherwise, node.otherwise_scope));
      INCIPIT_RETURN_IF_ERROR(ResolveBody(node.otherwise, otherwise, false));
    }
    if (node.recursive) node.num_loop_slots = PopFunction();
    --num_loops_;
    return absl::OkStatus();
  }

  absl::Status ResolveLoopTest(ForStmt& node, const Symbols& outer) {
    Symbols symbols(&outer, outer.level() + 1);
    symbols.Visit(*node.test_target, true);
    symbols.Visit(*node.test);
    PushFunction(symbols);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.test_scope));
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.test_target, symbols, false));
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.test, symbols, false));
    node.num_test_slots = PopFunction();
    return absl::OkStatus();
  }

  absl::Status ResolveSetBlock(SetBlockStmt& node, const Symbols& outer, bool soft) {
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.target, outer, soft));
    Symbols symbols(&outer, outer.level() + 1);
    symbols.Visit(node.body);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, false));
    return node.filter == nullptr ? absl::OkStatus() : ResolveExpr(*node.filter, symbols, false);
  }

  absl::Status ResolveFilterBlock(FilterBlockStmt& node, const Symbols& outer) {
    Symbols symbols(&outer, outer.level() + 1);
    symbols.Visit(node.body);
    symbols.Visit(*node.filter);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, false));
    return ResolveExpr(*node.filter, symbols, false);
  }

  absl::Status ResolveWith(WithStmt& node, const Symbols& outer, bool soft) {
    Symbols symbols(&outer, outer.level() + 1);
    for (const ExprPtr& target : node.targets) symbols.Visit(*target);
    symbols.Visit(node.body);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveAll(node.targets, symbols, false));
    INCIPIT_RETURN_IF_ERROR(ResolveAll(node.values, outer, soft));
    return ResolveBody(node.body, symbols, false);
  }

  static void Analyze(MacroCode& code, Symbols& symbols) {
    for (const auto& parameter : code.parameters) symbols.Visit(*parameter);
    for (const ExprPtr& value : code.defaults) symbols.Visit(*value);
    symbols.Visit(code.body);
  }

  static bool HasParameter(const MacroCode& code, std::string_view name) {
    return std::any_of(code.parameters.begin(), code.parameters.end(),
                       [&](const auto& parameter) { return parameter->name == name; });
  }

  absl::Status ResolveMacro(MacroCode& code, const Symbols& outer, int line) {
    Symbols symbols(&outer, outer.level() + 1);
    Analyze(code, symbols);
    std::set<std::string> special = FindUndeclared(code.body, {"caller", "kwargs", "varargs"});
    code.uses_caller = special.contains("caller");
    for (size_t i = 0; i + code.defaults.size() < code.parameters.size(); ++i) {
      if (code.uses_caller && code.parameters[i]->name == "caller") {
        return InvalidArgument(
            "chat template line {}: the special parameter 'caller' must be omitted or have a "
            "default",
            line);
      }
    }
    std::erase_if(special, [&](const std::string& name) { return HasParameter(code, name); });
    for (const std::string& name : special) symbols.DeclareParameter(name);
    Analyze(code, symbols);
    PushFunction(symbols);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, code.scope));
    const auto slot_of = [&](const std::string& name) -> std::optional<uint16_t> {
      if (!special.contains(name)) return std::nullopt;
      return SlotOf(symbols.level(), name)->slot;
    };
    code.caller_slot = slot_of("caller");
    code.kwargs_slot = slot_of("kwargs");
    code.varargs_slot = slot_of("varargs");
    for (const auto& parameter : code.parameters) {
      INCIPIT_RETURN_IF_ERROR(ResolveExpr(*parameter, symbols, false));
    }
    INCIPIT_RETURN_IF_ERROR(ResolveAll(code.defaults, symbols, false));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(code.body, symbols, false));
    code.num_slots = PopFunction();
    return absl::OkStatus();
  }

  std::vector<Function> functions_;
  int num_loops_ = 0;  // around the current place, through functions
  int refused_call_line_ = 0;
  bool assigns_refused_ = false;
};

}  // namespace

absl::Status ResolveNames(Program& program) { return Resolver().Run(program); }

}  // namespace incipit::jinja
