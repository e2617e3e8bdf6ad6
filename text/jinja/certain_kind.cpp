#include "text/jinja/certain_kind.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace incipit::jinja {
namespace {

using MaybeKind = std::optional<Kind>;

// Filters whose result is text, whatever they are applied to.
constexpr std::string_view kTextFilters[] = {
    "capitalize", "center", "e",      "escape", "forceescape", "format", "join",  "lower",
    "replace",    "safe",   "string", "title",  "tojson",      "trim",   "upper", "urlencode"};
// Methods of text whose result is text.
constexpr std::string_view kTextMethods[] = {
    "capitalize", "casefold", "center",   "expandtabs",   "format",       "format_map", "join",
    "ljust",      "lower",    "lstrip",   "removeprefix", "removesuffix", "replace",    "rjust",
    "rstrip",     "strip",    "swapcase", "title",        "upper",        "zfill"};

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

MaybeKind TextIf(bool is_text) { return is_text ? MaybeKind(Kind::kString) : std::nullopt; }

bool IsText(const Expr& expr) { return CertainKind(expr) == Kind::kString; }

// Text plus, times or % anything is text or an error.
bool IsTextArithmetic(const ArithmeticExpr& node) {
  const auto keeps_text = [](const auto& item) {
    return item.first == ArithmeticOp::kAdd || item.first == ArithmeticOp::kMul ||
           item.first == ArithmeticOp::kMod;
  };
  return IsText(*node.first) && std::ranges::all_of(node.rest, keeps_text);
}

bool IsTextMethod(const CallExpr& node) {
  if (node.callee->kind != ExprKind::kGetAttribute) return false;
  const auto& method = static_cast<const GetAttributeExpr&>(*node.callee);
  return Contains(kTextMethods, method.attribute.bytes()) && IsText(*method.object);
}

MaybeKind KindOfBoth(const ConditionExpr& node) {
  if (node.otherwise == nullptr) return std::nullopt;
  const MaybeKind kind = CertainKind(*node.then);
  return kind == CertainKind(*node.otherwise) ? kind : std::nullopt;
}

}  // namespace

std::optional<Kind> CertainKind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst:
      return static_cast<const ConstExpr&>(expr).value.kind();
    case ExprKind::kTuple:
      return Kind::kTuple;
    case ExprKind::kList:
      return Kind::kList;
    case ExprKind::kDict:
      return Kind::kDict;
    case ExprKind::kConcat:
      return Kind::kString;
    case ExprKind::kArithmetic:
      return TextIf(IsTextArithmetic(static_cast<const ArithmeticExpr&>(expr)));
    case ExprKind::kCondition:
      return KindOfBoth(static_cast<const ConditionExpr&>(expr));
    case ExprKind::kSlice:
      return TextIf(IsText(*static_cast<const SliceExpr&>(expr).object));
    case ExprKind::kCall:
      return TextIf(IsTextMethod(static_cast<const CallExpr&>(expr)));
    case ExprKind::kFilter:
      return TextIf(Contains(kTextFilters, static_cast<const FilterExpr&>(expr).name));
    default:
      return std::nullopt;
  }
}

}  // namespace incipit::jinja
