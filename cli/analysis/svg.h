// Creates drawings as SVG files. The files refer to no other files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace incipit {

// Returns `text` escaped for an XML element or a quoted attribute. Control characters that XML does
// not allow and bytes that are not UTF-8 become U+FFFD.
std::string EscapeXml(std::string_view text);

struct SvgPoint {
  // `x` is the distance from the left edge of the drawing, `y` from the upper edge, in pixels.
  double x = 0, y = 0;
};

// The colour, width and dashes of a line. `color` is an RGB colour, such as "#1b6ca8".
struct SvgStroke {
  std::string_view color;
  double width = 1;
  // Length of a dash and length of a gap in pixels, such as "4 3"; empty: a solid line.
  std::string_view dashes = {};
};

struct SvgText {
  enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
  Anchor anchor = Anchor::kStart;
  double size = 12;
  bool bold = false;
  std::string_view color = "#222222";
  double degrees = 0;  // clockwise rotation of the text about its anchor point, in degrees
};

// An SVG drawing with an opaque white background. Elements that are added later cover elements that
// were added earlier.
class SvgDocument {
 public:
  // Creates a drawing of `width` times `height` pixels. `title` and `description` are for screen
  // readers.
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
