#include "cli/analysis/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "text/unicode/utf8.h"

namespace incipit {
namespace {

std::string_view AnchorName(SvgText::Anchor anchor) {
  switch (anchor) {
    case SvgText::Anchor::kStart:
      return "start";
    case SvgText::Anchor::kMiddle:
      return "middle";
    case SvgText::Anchor::kEnd:
      return "end";
  }
  return "start";
}

// Formats a coordinate with at most two decimals, without trailing zeros; -0 becomes "0".
std::string Number(double value) {
  const double rounded = std::round(value * 100) / 100;
  return fmt::format("{}", rounded == 0 ? 0.0 : rounded);
}

std::string StrokeAttributes(const SvgStroke& stroke) {
  std::string text =
      fmt::format("stroke=\"{}\" stroke-width=\"{}\"", stroke.color, Number(stroke.width));
  if (!stroke.dashes.empty()) text += fmt::format(" stroke-dasharray=\"{}\"", stroke.dashes);
  return text;
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string valid;
  Utf8Repair repair;
  repair.Push(text, valid);
  repair.Flush(valid);
  std::string escaped;
  for (size_t i = 0; i < valid.size();) {
    const size_t begin = i;
    const char32_t c = NextCodePoint(valid, i);
    const bool is_character = (c >= 0x20 && c != 0xFFFE && c != 0xFFFF) || c == '\t' || c == '\n';
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else if (!is_character) {
      escaped += kReplacementCharacter;
    } else {
      escaped += valid.substr(begin, i - begin);
    }
  }
  return escaped;
}

SvgDocument::SvgDocument(int32_t width, int32_t height, std::string_view title,
                         std::string_view description)
    : text_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                        "viewBox=\"0 0 {0} {1}\" role=\"img\" "
                        "font-family=\"Helvetica, Arial, sans-serif\">\n"
                        "<title>{2}</title>\n<desc>{3}</desc>\n",
                        width, height, EscapeXml(title), EscapeXml(description))) {
  Rectangle({0, 0}, width, height, "#ffffff");
}

void SvgDocument::Line(SvgPoint from, SvgPoint to, const SvgStroke& stroke) {
  fmt::format_to(std::back_inserter(text_), "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n",
                 Number(from.x), Number(from.y), Number(to.x), Number(to.y),
                 StrokeAttributes(stroke));
}

void SvgDocument::Polyline(std::span<const SvgPoint> points, const SvgStroke& stroke) {
  text_ += "<polyline points=\"";
  for (size_t i = 0; i < points.size(); ++i) {
    fmt::format_to(std::back_inserter(text_), "{}{},{}", i == 0 ? "" : " ", Number(points[i].x),
                   Number(points[i].y));
  }
  fmt::format_to(std::back_inserter(text_),
                 "\" fill=\"none\" stroke-linejoin=\"round\" stroke-linecap=\"round\" {}/>\n",
                 StrokeAttributes(stroke));
}

void SvgDocument::Rectangle(SvgPoint corner, double width, double height, std::string_view color) {
  fmt::format_to(std::back_inserter(text_),
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                 Number(corner.x), Number(corner.y), Number(width), Number(height), color);
}

void SvgDocument::Dot(SvgPoint center, double radius, std::string_view color) {
  fmt::format_to(std::back_inserter(text_),
                 "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" stroke=\"#ffffff\"/>\n",
                 Number(center.x), Number(center.y), Number(radius), color);
}

void SvgDocument::Text(SvgPoint at, std::string_view text, const SvgText& style) {
  const std::string turn = style.degrees == 0
                               ? ""
                               : fmt::format(" transform=\"rotate({} {} {})\"",
                                             Number(style.degrees), Number(at.x), Number(at.y));
  fmt::format_to(std::back_inserter(text_),
                 "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}{}>"
                 "{}</text>\n",
                 Number(at.x), Number(at.y), Number(style.size), AnchorName(style.anchor),
                 style.color, style.bold ? " font-weight=\"bold\"" : "", turn, EscapeXml(text));
}

std::string SvgDocument::Finish() && { return std::move(text_) + "</svg>\n"; }

}  // namespace incipit
