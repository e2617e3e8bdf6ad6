#include "text/jinja/ast_walk.h"

#include "base/check.h"

namespace incipit::jinja {
namespace {

template <typename T>
T& As(Expr& expr) {
  return static_cast<T&>(expr);
}

void VisitIf(const ExprPtr& expr, ExprVisitor visit) {
  if (expr != nullptr) visit(*expr);
}

void VisitAll(const std::vector<ExprPtr>& items, ExprVisitor visit) {
  for (const ExprPtr& item : items) visit(*item);
}

}  // namespace

void ForEachArgument(CallArguments& arguments, ExprVisitor visit) {
  VisitAll(arguments.positional, visit);
  for (const auto& [name, value] : arguments.keyword) visit(*value);
  VisitIf(arguments.star, visit);
  VisitIf(arguments.double_star, visit);
}

void ForEachChild(Expr& expr, ExprVisitor visit) {
  switch (expr.kind) {
    case ExprKind::kConst:
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return;
    case ExprKind::kTuple:
      return VisitAll(As<TupleExpr>(expr).items, visit);
    case ExprKind::kList:
      return VisitAll(As<ListExpr>(expr).items, visit);
    case ExprKind::kDict:
      for (const auto& [key, value] : As<DictExpr>(expr).items) {
        visit(*key);
        visit(*value);
      }
      return;
    case ExprKind::kUnary:
      return visit(*As<UnaryExpr>(expr).operand);
    case ExprKind::kArithmetic:
      visit(*As<ArithmeticExpr>(expr).first);
      for (const auto& [op, operand] : As<ArithmeticExpr>(expr).rest) visit(*operand);
      return;
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kConcat:
      return VisitAll(As<ChainExpr>(expr).operands, visit);
    case ExprKind::kCompare:
      visit(*As<CompareExpr>(expr).first);
      for (const auto& [op, operand] : As<CompareExpr>(expr).rest) visit(*operand);
      return;
    case ExprKind::kCondition:
      visit(*As<ConditionExpr>(expr).test);
      visit(*As<ConditionExpr>(expr).then);
      return VisitIf(As<ConditionExpr>(expr).otherwise, visit);
    case ExprKind::kGetAttribute:
      return visit(*As<GetAttributeExpr>(expr).object);
    case ExprKind::kGetItem:
      visit(*As<GetItemExpr>(expr).object);
      return visit(*As<GetItemExpr>(expr).index);
    case ExprKind::kSlice:
      visit(*As<SliceExpr>(expr).object);
      VisitIf(As<SliceExpr>(expr).start, visit);
      VisitIf(As<SliceExpr>(expr).stop, visit);
      return VisitIf(As<SliceExpr>(expr).step, visit);
    case ExprKind::kCall:
      visit(*As<CallExpr>(expr).callee);
      return ForEachArgument(As<CallExpr>(expr).arguments, visit);
    case ExprKind::kFilter:
      VisitIf(As<FilterExpr>(expr).operand, visit);
      return ForEachArgument(As<FilterExpr>(expr).arguments, visit);
    case ExprKind::kTest:
      visit(*As<TestExpr>(expr).operand);
      return ForEachArgument(As<TestExpr>(expr).arguments, visit);
  }
}

ExprPtr CloneTarget(const Expr& target) {
  if (target.kind == ExprKind::kName) {
    const auto& name = static_cast<const NameExpr&>(target);
    auto copy = std::make_unique<NameExpr>();
    copy->line = name.line;
    copy->name = name.name;
    copy->context = name.context;
    return copy;
  }
  INCIPIT_CHECK(target.kind == ExprKind::kTuple);
  auto copy = std::make_unique<TupleExpr>();
  copy->line = target.line;
  copy->depth = target.depth;
  for (const ExprPtr& item : static_cast<const TupleExpr&>(target).items) {
    copy->items.push_back(CloneTarget(*item));
  }
  return copy;
}

}  // namespace incipit::jinja
