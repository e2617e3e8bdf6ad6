// Drawings as one self-contained SVG file: no fonts, scripts or styles from elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace incipit {

// `text` as it may stand in an element or a quoted attribute: markup is escaped, and what XML
// cannot hold (control characters, bytes that are no UTF-8) becomes U+FFFD.
std::string EscapeXml(std::string_view text);

struct SvgPoint {
  double x = 0, y = 0;  // from the upper left corner
};

// Colours are literals such as "#1b6ca8".
struct SvgStroke {
  std::string_view color;
  double width = 1;
  std::string_view dashes = {};  // such as "4 3"; empty: none
};

struct SvgText {
  enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
  Anchor anchor = Anchor::kStart;
  double size = 12;
  bool bold = false;
  std::string_view color = "#222222";
  double degrees = 0;  // turned clockwise about its anchor
};

// What is drawn later lies on top. Opaque white behind all.
class SvgDocument {
 public:
  // `title` and `description` are what a reader that does not see the drawing is told.
  SvgDocument(int32_t width, int32_t height, std::string_view title, std::string_view description);

  void Line(SvgPoint from, SvgPoint to, const SvgStroke& stroke);
  void Polyline(std::span<const SvgPoint> points, const SvgStroke& stroke);
  void Rectangle(SvgPoint corner, double width, double height, std::string_view color);
  void Dot(SvgPoint center, double radius, std::string_view color);
  void Text(SvgPoint at, std::string_view text, const SvgText& style);

  std::string Finish() &&;

 private:
  std::string text_;
};

}  // namespace incipit
