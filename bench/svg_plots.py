"""Draws bar charts, dot charts and line charts as SVG files. A file refers to no other file.

A drawing has light colours, or dark colours if the reader's system prefers dark pages. Each drawn value has the class
`mark`.
"""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP = 860, 170, 60, 92  # pixels; TOP is the height of title, subtitle and legend
ROW_HEIGHT, PLOT_HEIGHT, FOOT = 44, 320, 52  # pixels; PLOT_HEIGHT is the height of a line chart without its titles
TEXT_WIDTH = 6.8  # width of a character of a legend in pixels, estimated
TICKS = 6  # number of tick labels that an axis has at least, approximately
# Colours of the series in light and in dark drawings. People with colour blindness can distinguish these colours.
COLORS = [("#0072b2", "#56b4e9"), ("#d55e00", "#f0a35e"), ("#009e73", "#3fc8a0"), ("#a6447f", "#e6a3c8")]
STYLE = """<style>
.card{fill:#ffffff}.ink{fill:#222222}.faint{fill:#666666}.grid{stroke:#e4e4e4}.axis{stroke:#222222}.range{stroke:#222222}
%s
@media (prefers-color-scheme: dark){
.card{fill:#15171c}.ink{fill:#e8e8e8}.faint{fill:#a0a4ab}.grid{stroke:#33363d}.axis{stroke:#c8c8c8}.range{stroke:#e8e8e8}
%s
}
</style>
""" % tuple("".join(f".f{i}{{fill:{colors[side]}}}.s{i}{{stroke:{colors[side]}}}" for i, colors in enumerate(COLORS))
            for side in (0, 1))


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Drawing:
    """The elements of an SVG file. Later elements cover earlier elements."""

    def __init__(self, height, title, subtitle):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" font-family="Helvetica, Arial, sans-serif">\n<title>{escape(title)}</title>\n'
            f"<desc>{escape(subtitle)}</desc>\n{STYLE}", f'<rect class="card" width="{WIDTH}" height="{height}" rx="6"/>\n']
        self.text(20, 28, title, size=17, extra=' font-weight="bold"')
        self.text(20, 48, subtitle, kind="faint")

    def text(self, x, y, text, anchor="start", size=12, kind="ink", extra=""):
        self.parts.append(f'<text class="{kind}" x="{number(x)}" y="{number(y)}" font-size="{size}" '
                          f'text-anchor="{anchor}"{extra}>{escape(text)}</text>\n')

    def line(self, x1, y1, x2, y2, kind, width=1.0):
        self.parts.append(f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
                          f'stroke-width="{width}"/>\n')

    def bar(self, x, y, width, height, series):
        self.parts.append(f'<rect class="mark f{series}" x="{number(x)}" y="{number(y)}" width="{number(max(width, 0.5))}" '
                          f'height="{number(height)}"/>\n')

    def dot(self, x, y, series, kind="mark"):
        self.parts.append(f'<circle class="{kind} f{series}" cx="{number(x)}" cy="{number(y)}" r="5"/>\n')

    def polyline(self, points, series):
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.parts.append(f'<polyline class="s{series}" points="{path}" fill="none" stroke-width="2"/>\n')

    def legend(self, names):
        x = 20
        for series, name in enumerate(names):
            self.dot(x + 5, 70, series, kind="key")
            self.text(x + 16, 74, name)
            x += 16 + TEXT_WIDTH * len(name) + 26
        return x

    def finish(self):
        return "".join(self.parts) + "</svg>\n"


class Axis:
    """An axis from `low` at the pixel `begin` to `high` at the pixel `end`."""

    def __init__(self, low, high, begin, end, logarithmic=False):
        self.low, self.high, self.begin, self.end, self.logarithmic = low, high, begin, end, logarithmic

    def place(self, value):
        share = (math.log(value / self.low) / math.log(self.high / self.low) if self.logarithmic
                 else (value - self.low) / (self.high - self.low))
        return self.begin + (self.end - self.begin) * share

    def ticks(self):
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
            return [tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
        step = round_step((self.high - self.low) / TICKS)
        return [step * i for i in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def round_step(raw):
    """Returns the smallest of 1, 2 and 5 times a power of ten that is at least `raw`."""
    power = 10.0 ** math.floor(math.log10(raw))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def linear_axis(values, begin, end, high=None):
    """Returns an axis from 0 to `high`, or to a round number that is at least the largest value."""
    largest = max([value for value in values if value is not None], default=0) or 1
    step = round_step(largest / TICKS)
    return Axis(0, high or step * math.ceil(largest / step - 1e-9), begin, end)


def logarithmic_axis(values, begin, end):
    """Returns an axis between round numbers around the values above 0."""
    known = [value for value in values if value is not None and value > 0] or [1]
    low, high = min(known), max(known)
    low = max(tick for tick in Axis(low / 10, low, 0, 1, True).ticks())
    high = min(tick for tick in Axis(high, high * 10, 0, 1, True).ticks())
    return Axis(low, high if high > low else 10 * low, begin, end, True)


def draw_value_axis(drawing, axis, bottom, label, text):
    for tick in axis.ticks():
        x = axis.place(tick)
        drawing.line(x, TOP, x, bottom, "grid")
        drawing.text(x, bottom + 18, text(tick), "middle")
    drawing.text((axis.begin + axis.end) / 2, bottom + 40, label, "middle", 13)


def horizontal_bars(title, subtitle, label, rows, series, text, high=None, ranges=None, range_name=""):
    """Returns a bar chart. `rows` has (name, values), one value for each name in `series`; None draws no bar. `text`
    returns the text of a value. `ranges` has (low, high) by the name of a row, drawn as a line beside the bars."""
    bottom = TOP + ROW_HEIGHT * len(rows)
    drawing = Drawing(bottom + FOOT, title, subtitle)
    end = drawing.legend(series)
    if ranges:
        drawing.line(end, 70, end + 22, 70, "range", 2.5)
        drawing.text(end + 28, 74, range_name)
    axis = linear_axis([value for _, values in rows for value in values], LEFT, WIDTH - RIGHT, high)
    draw_value_axis(drawing, axis, bottom, label, text)
    thickness = (ROW_HEIGHT - 14) / len(series)
    for i, (name, values) in enumerate(rows):
        top = TOP + ROW_HEIGHT * i + 4
        drawing.text(LEFT - 10, top + (ROW_HEIGHT - 14) / 2 + 5, name, "end")
        for j, value in enumerate(values):
            if value is not None:
                drawing.bar(LEFT, top + thickness * j, axis.place(value) - LEFT, thickness - 1, j)
                drawing.text(axis.place(value) + 6, top + thickness * (j + 0.5) + 3.5, text(value), size=10)
        if ranges and name in ranges:
            begin, end = (axis.place(value) for value in ranges[name])
            drawing.line(begin, top + ROW_HEIGHT - 11, end, top + ROW_HEIGHT - 11, "mark range", 2.5)
    drawing.line(LEFT, TOP, LEFT, bottom, "axis")
    return drawing.finish()


def horizontal_dots(title, subtitle, label, rows, series, text):
    """Returns a dot chart with a logarithmic axis. `rows` is as in horizontal_bars; all values are above 0. A line
    connects the dots of a row."""
    bottom = TOP + ROW_HEIGHT * len(rows)
    drawing = Drawing(bottom + FOOT, title, subtitle)
    drawing.legend(series)
    axis = logarithmic_axis([value for _, values in rows for value in values], LEFT, WIDTH - RIGHT)
    draw_value_axis(drawing, axis, bottom, label, text)
    for i, (name, values) in enumerate(rows):
        y = TOP + ROW_HEIGHT * (i + 0.5)
        drawing.text(LEFT - 10, y + 4, name, "end")
        known = [(axis.place(value), j) for j, value in enumerate(values) if value]
        if known:
            drawing.line(min(known)[0], y, max(known)[0], y, "grid", 4)
        for x, j in known:
            drawing.dot(x, y, j)
            drawing.text(x, y - 9 if j % 2 == 0 else y + 17, text(values[j]), "middle", 10)
    drawing.line(LEFT, TOP, LEFT, bottom, "axis")
    return drawing.finish()


def lines(title, subtitle, x_label, y_label, series, x_text, y_text, x_high=None, y_high=None, y_logarithmic=False):
    """Returns a line chart. `series` has (name, points); the points are in ascending order of x. With a logarithmic y
    axis, y is above 0 for all points."""
    bottom = TOP + PLOT_HEIGHT
    drawing = Drawing(bottom + FOOT, title, subtitle)
    drawing.legend([name for name, _ in series])
    points = [point for _, found in series for point in found]
    x_axis = linear_axis([x for x, _ in points], 80, WIDTH - RIGHT, x_high)
    heights = [y for _, y in points]
    y_axis = logarithmic_axis(heights, bottom, TOP) if y_logarithmic else linear_axis(heights, bottom, TOP, y_high)
    draw_value_axis(drawing, x_axis, bottom, x_label, x_text)
    for tick in y_axis.ticks():
        drawing.line(80, y_axis.place(tick), WIDTH - RIGHT, y_axis.place(tick), "grid")
        drawing.text(72, y_axis.place(tick) + 4, y_text(tick), "end")
    drawing.line(80, bottom, WIDTH - RIGHT, bottom, "axis")
    middle = (TOP + bottom) / 2
    drawing.text(20, middle, y_label, "middle", 13, extra=f' transform="rotate(-90 20 {number(middle)})"')
    for i, (_, found) in enumerate(series):
        placed = [(x_axis.place(x), y_axis.place(y)) for x, y in found]
        drawing.polyline(placed, i)
        for x, y in placed:
            drawing.dot(x, y, i)
    return drawing.finish()
