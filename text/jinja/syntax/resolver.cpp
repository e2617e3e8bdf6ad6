#include "text/jinja/syntax/resolver.h"

#include <limits>
#include <map>
#include <utility>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/format.h"
#include "text/jinja/syntax/symbols.h"

namespace incipit::jinja {
namespace {

constexpr size_t kSlotsMax = std::numeric_limits<uint16_t>::max();

absl::Status Refuse(int line, std::string_view what, std::string_view name) {
  return Unimplemented("chat template line {}: the {} '{}' is not supported", line, what, name);
}

absl::Status TooManyVariables() {
  return InvalidArgument("the chat template has more than {} variables", kSlotsMax);
}

const Value* ConstantString(const Expr* expr) {
  if (expr == nullptr || expr->kind != ExprKind::kConst) return nullptr;
  const Value& value = static_cast<const ValueExpr*>(expr)->value;
  return value.is_string() ? &value : nullptr;
}

// Sets the variable `flag` to `value`. The destructor restores the previous value.
class FlagGuard {
 public:
  FlagGuard(bool& flag, bool value) : flag_(flag), before_(std::exchange(flag, value)) {}
  ~FlagGuard() { flag_ = before_; }
  FlagGuard(const FlagGuard&) = delete;
  FlagGuard& operator=(const FlagGuard&) = delete;

 private:
  bool& flag_;
  const bool before_;
};

class Resolver {
 public:
  absl::Status Run(Program& program) {
    functions_.push_back({.first_level = 0, .slots = {}});
    Symbols symbols(nullptr, 0);
    symbols.Visit(program.body);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, program.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(program.body, symbols, false));
    program.num_slots = PopFunction();
    program.context = std::move(context_);
    for (const auto& [name, line] : refused_calls_) {
      if (!variables_.contains(name) && !macros_.contains(name)) {
        return Refuse(line, "function", name);
      }
    }
    for (const auto& [name, node] : macro_attributes_) {
      if (variables_.contains(name) || !macros_.contains(name)) continue;
      return Refuse(node->line, fmt::format("attribute of the macro '{}'", name),
                    node->value.bytes());
    }
    return absl::OkStatus();
  }

 private:
  struct Function {
    int first_level;  // nesting level of the outermost scope of the function
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
    if (slots.size() >= kSlotsMax) return TooManyVariables();
    const auto it = slots.try_emplace({level, name}, static_cast<uint16_t>(slots.size())).first;
    return SlotRef{static_cast<uint16_t>(functions_.size() - 1 - index), it->second};
  }

  absl::StatusOr<SlotRef> SlotOf(const std::string& name, const Symbols& symbols, int line) {
    const std::optional<int> level = symbols.FindRef(name);
    if (!level) {
      return InvalidArgument("chat template line {}: the name '{}' does not exist in this scope",
                             line, name);
    }
    return SlotOf(*level, name);
  }

  absl::Status BuildScope(const Symbols& symbols, Scope& scope) {
    for (const auto& [name, load] : symbols.loads()) {
      ScopeLoad entry{.source = load.source, .slot = 0, .outer = {}, .context = 0};
      INCIPIT_ASSIGN_OR_RETURN(const SlotRef slot, SlotOf(symbols.level(), name));
      entry.slot = slot.slot;
      if (load.source == ScopeLoad::Source::kOuter) {
        INCIPIT_ASSIGN_OR_RETURN(entry.outer, SlotOf(load.outer_level, name));
      } else if (load.source == ScopeLoad::Source::kContext) {
        if (context_.size() >= kSlotsMax) return TooManyVariables();
        const auto next = static_cast<uint16_t>(context_.size());
        entry.context = context_.try_emplace(name, next).first->second;
      }
      scope.push_back(entry);
    }
    return absl::OkStatus();
  }

  absl::Status ResolveExpr(Expr& expr, const Symbols& symbols) {
    const FlagGuard guard(soft_, soft_ || expr.kind == ExprKind::kCondition);
    switch (expr.kind) {
      case ExprKind::kName:
        INCIPIT_RETURN_IF_ERROR(ResolveName(NodeAs<NameExpr>(expr), symbols));
        break;
      case ExprKind::kNamespaceRef: {
        auto& ref = NodeAs<NameExpr>(expr);
        INCIPIT_ASSIGN_OR_RETURN(ref.slot, SlotOf(ref.name, symbols, ref.line));
        break;
      }
      case ExprKind::kArithmetic:
        INCIPIT_RETURN_IF_ERROR(CheckPercent(NodeAs<ChainExpr>(expr)));
        break;
      case ExprKind::kGetAttribute:
        INCIPIT_RETURN_IF_ERROR(CheckAttribute(NodeAs<ValueExpr>(expr)));
        break;
      case ExprKind::kCall:
        INCIPIT_RETURN_IF_ERROR(CheckCall(NodeAs<CallExpr>(expr)));
        break;
      case ExprKind::kFilter:
        INCIPIT_RETURN_IF_ERROR(ResolveFilter(NodeAs<CallExpr>(expr)));
        break;
      case ExprKind::kTest: {
        auto& test = NodeAs<CallExpr>(expr);
        test.builtin = FindTest(test.name);
        if (test.builtin == nullptr) INCIPIT_RETURN_IF_ERROR(Missing("test", test));
        break;
      }
      default:
        break;
    }
    absl::Status status;
    ForEachChild(expr, [&](Expr& child) {
      if (status.ok()) status = ResolveExpr(child, symbols);
    });
    return status;
  }

  absl::Status ResolveName(NameExpr& name, const Symbols& symbols) {
    if (name.context != NameContext::kLoad) variables_.insert(name.name);
    if (num_loops_ > 0 && name.context == NameContext::kStore && name.name == "loop") {
      return InvalidArgument(
          "chat template line {}: the special variable 'loop' cannot be assigned in a loop",
          name.line);
    }
    INCIPIT_ASSIGN_OR_RETURN(name.slot, SlotOf(name.name, symbols, name.line));
    return absl::OkStatus();
  }

  absl::Status Missing(std::string_view kind, const CallExpr& node) const {
    if (soft_) return absl::OkStatus();
    return InvalidArgument("chat template line {}: there is no {} named '{}'", node.line, kind,
                           node.name);
  }

  absl::Status ResolveFilter(CallExpr& filter) {
    filter.builtin = FindFilter(filter.name);
    if (filter.builtin == nullptr) return Missing("filter", filter);
    if (filter.builtin->function == nullptr) return Refuse(filter.line, "filter", filter.name);
    if (filter.name == "format") return CheckFormat(*filter.children[0], filter.line);
    if (filter.name != "map" || filter.children.size() < 2) return absl::OkStatus();
    // In `map("name")`, the filter `map` applies the filter `name` to each item. Refuse the
    // template if the filter `name` is not supported.
    const Value* name = ConstantString(filter.children[1].get());
    if (name == nullptr || filter.keywords.size() == filter.children.size() - 1) {
      return absl::OkStatus();
    }
    const NamedBuiltin* mapped = FindFilter(name->bytes());
    if (mapped == nullptr || mapped->function != nullptr) return absl::OkStatus();
    return Refuse(filter.line, "filter", name->bytes());
  }

  absl::Status CheckPercent(const ChainExpr& node) {
    if (node.ops[0] != static_cast<uint8_t>(ArithmeticOp::kMod)) return absl::OkStatus();
    return CheckFormat(*node.children[0], node.line);
  }

  // Returns an error if `expr` is a constant format string with an unsupported directive, such as
  // %a.
  static absl::Status CheckFormat(const Expr& expr, int line) {
    const Value* format = ConstantString(&expr);
    if (format == nullptr) return absl::OkStatus();
    const absl::Status status = CheckPercentFormat(format->bytes());
    if (status.code() != absl::StatusCode::kUnimplemented) return absl::OkStatus();
    return Annotate(status, fmt::format("chat template line {}", line));
  }

  absl::Status CheckAttribute(ValueExpr& node) {
    const std::string_view name = node.value.bytes();
    node.is_item = !name.starts_with('_') && !IsMutatingMethod(Kind::kDict, name) &&
                   FindMethod(Kind::kDict, name) == nullptr;
    if (name.starts_with("__") && name.ends_with("__")) {
      return Refuse(node.line, "attribute", name);
    }
    const Expr& object = *node.children[0];
    if (object.kind == ExprKind::kName && IsMacroAttribute(name)) {
      macro_attributes_.emplace(NodeAs<const NameExpr>(object).name, &node);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCall(const CallExpr& call) {
    const Expr& callee = *call.children[0];
    if (callee.kind == ExprKind::kName) {
      const std::string& name = NodeAs<const NameExpr>(callee).name;
      // Run() returns an error for a call of an unsupported function, unless the template defines a
      // variable or a macro of the same name.
      const NamedBuiltin* function = FindFunction(name);
      if (function != nullptr && function->function == nullptr) {
        refused_calls_.try_emplace(name, call.line);
      }
      return absl::OkStatus();
    }
    if (callee.kind != ExprKind::kGetAttribute) return absl::OkStatus();
    const std::string_view name = NodeAs<const ValueExpr>(callee).value.bytes();
    if (IsRefusedMethod(name)) return Refuse(call.line, "method", name);
    return absl::OkStatus();
  }

  // Resolves the names in `body`. If `soft` is true, an unknown filter or test is an error only
  // when the template executes it.
  absl::Status ResolveBody(const Body& body, const Symbols& symbols, bool soft) {
    const FlagGuard guard(soft_, soft);
    for (const auto& statement : body) {
      INCIPIT_RETURN_IF_ERROR(ResolveStatement(*statement, symbols));
    }
    return absl::OkStatus();
  }

  absl::Status ResolveAll(const std::vector<ExprPtr>& exprs, const Symbols& symbols) {
    for (const ExprPtr& expr : exprs) {
      INCIPIT_RETURN_IF_ERROR(ResolveExpr(*expr, symbols));
    }
    return absl::OkStatus();
  }

  absl::Status ResolveStatement(Stmt& statement, const Symbols& symbols) {
    switch (statement.kind) {
      case StmtKind::kOutput:
        return ResolveAll(NodeAs<OutputStmt>(statement).items, symbols);
      case StmtKind::kIf:
        return ResolveIf(NodeAs<IfStmt>(statement), symbols);
      case StmtKind::kFor:
        return ResolveFor(NodeAs<ForStmt>(statement), symbols);
      case StmtKind::kSet:
        INCIPIT_RETURN_IF_ERROR(ResolveExpr(*NodeAs<SetStmt>(statement).target, symbols));
        return ResolveExpr(*NodeAs<SetStmt>(statement).value, symbols);
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
        return ResolveBlock(NodeAs<BlockStmt>(statement), symbols);
      case StmtKind::kMacro: {
        auto& node = NodeAs<MacroStmt>(statement);
        macros_.insert(node.name);
        INCIPIT_ASSIGN_OR_RETURN(node.slot, SlotOf(node.name, symbols, node.line));
        return ResolveMacro(node, symbols);
      }
      case StmtKind::kCallBlock: {
        auto& node = NodeAs<MacroStmt>(statement);
        INCIPIT_RETURN_IF_ERROR(ResolveMacro(node, symbols));
        return node.call == nullptr ? absl::OkStatus() : ResolveExpr(*node.call, symbols);
      }
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status ResolveIf(IfStmt& node, const Symbols& symbols) {
    const FlagGuard guard(soft_, true);
    for (const IfStmt::Branch& branch : node.branches) {
      INCIPIT_RETURN_IF_ERROR(ResolveExpr(*branch.test, symbols));
      INCIPIT_RETURN_IF_ERROR(ResolveBody(branch.body, symbols, true));
    }
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.otherwise, symbols, true));
    return absl::OkStatus();
  }

  absl::Status ResolveFor(ForStmt& node, const Symbols& outer) {
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.iterable, outer));
    ++num_loops_;
    const FlagGuard guard(soft_, false);
    if (node.test != nullptr) INCIPIT_RETURN_IF_ERROR(ResolveLoopTest(node, outer));
    Symbols symbols = outer.Inner();
    if (node.uses_loop) symbols.DeclareParameter("loop");
    symbols.Visit(*node.target, true);
    symbols.Visit(node.body);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    if (node.uses_loop) {
      INCIPIT_ASSIGN_OR_RETURN(node.loop_slot, SlotOf(symbols.level(), "loop"));
    }
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.target, symbols));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, false));
    Symbols otherwise = outer.Inner();
    otherwise.Visit(node.otherwise);
    INCIPIT_RETURN_IF_ERROR(BuildScope(otherwise, node.otherwise_scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.otherwise, otherwise, false));
    --num_loops_;
    return absl::OkStatus();
  }

  absl::Status ResolveLoopTest(ForStmt& node, const Symbols& outer) {
    Symbols symbols = outer.Inner();
    symbols.Visit(*node.test_target, true);
    symbols.Visit(*node.test);
    PushFunction(symbols);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.test_scope));
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.test_target, symbols));
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.test, symbols));
    node.num_test_slots = PopFunction();
    return absl::OkStatus();
  }

  absl::Status ResolveBlock(BlockStmt& node, const Symbols& outer) {
    if (node.target != nullptr) INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.target, outer));
    Symbols symbols = outer.Inner();
    symbols.Visit(node.body);
    // Adds the variables in the arguments of a block's filter to the scope of a filter block. As in
    // Jinja2, the variables are not added to the scope of a set block.
    if (node.kind == StmtKind::kFilterBlock) symbols.Visit(*node.filter);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, node.scope));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(node.body, symbols, false));
    if (node.filter == nullptr) return absl::OkStatus();
    const FlagGuard guard(soft_, false);
    INCIPIT_RETURN_IF_ERROR(ResolveExpr(*node.filter, symbols));
    return absl::OkStatus();
  }

  static void Analyze(const MacroStmt& macro, Symbols& symbols) {
    for (const auto& parameter : macro.parameters) symbols.Visit(*parameter);
    for (const ExprPtr& value : macro.defaults) symbols.Visit(*value);
    symbols.Visit(macro.body);
  }

  absl::Status ResolveMacro(MacroStmt& macro, const Symbols& outer) {
    Symbols symbols = outer.Inner();
    Analyze(macro, symbols);
    if (macro.uses_caller) symbols.DeclareParameter("caller");
    Analyze(macro, symbols);
    PushFunction(symbols);
    INCIPIT_RETURN_IF_ERROR(BuildScope(symbols, macro.scope));
    if (macro.uses_caller) {
      INCIPIT_ASSIGN_OR_RETURN(macro.caller_slot, SlotOf(symbols.level(), "caller"));
    }
    const FlagGuard guard(soft_, false);
    for (const auto& parameter : macro.parameters) {
      INCIPIT_RETURN_IF_ERROR(ResolveExpr(*parameter, symbols));
    }
    INCIPIT_RETURN_IF_ERROR(ResolveAll(macro.defaults, symbols));
    INCIPIT_RETURN_IF_ERROR(ResolveBody(macro.body, symbols, false));
    macro.num_slots = PopFunction();
    return absl::OkStatus();
  }

  std::vector<Function> functions_;
  std::map<std::string, uint16_t, std::less<>> context_;
  // Number of loops around the current position, including loops outside of the current macro.
  int num_loops_ = 0;
  bool soft_ = false;  // true if unknown filters and tests are errors only when executed
  // Maps the name of each called but unsupported function to the line of its first call.
  std::map<std::string, int> refused_calls_;
  // The first expression of the form `f.arguments` (attribute of a macro) for each name `f`. Run()
  // returns an error for this expression if `f` is the name of a macro and not of a variable.
  std::map<std::string, const ValueExpr*> macro_attributes_;
  std::set<std::string> variables_, macros_;  // names of the assigned variables and of the macros
};

}  // namespace

absl::Status ResolveNames(Program& program) { return Resolver().Run(program); }

}  // namespace incipit::jinja
