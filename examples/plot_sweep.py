#!/usr/bin/env python3
"""Plots two columns of a sweep's database, a line for each value of a third.

    moeplan sweep capacity_factor -o capacity.sqlite
    python3 examples/plot_sweep.py capacity.sqlite --x f --y makespan_s --lines ep -o capacity.svg

With Matplotlib where it is installed, otherwise as SVG by hand.
"""

import argparse
import collections
import html
import sqlite3

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5")


def series(database, x, y, lines):
    """{value of `lines`: [(x, y), ...]} in the order of the cases; cases that are infeasible have no y."""
    out = collections.defaultdict(list)
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(cases)")]
        for name in (x, y, lines):
            if name not in columns:
                raise SystemExit(f"{database}: has no column {name}; it has {', '.join(columns)}")
        for line, at, value in connection.execute(f'SELECT "{lines}", "{x}", "{y}" FROM cases'):
            if value is not None:
                out[str(line)].append((str(at), float(value)))
    return out


def svg(points, x, y, lines, width=640, height=400):
    """A line plot with named positions on the x axis."""
    left, right, top, bottom = 80, 110, 30, 50
    places = list(dict.fromkeys(at for line in points.values() for at, _ in line))
    most = max(value for line in points.values() for _, value in line)

    def at(place, value):
        step = (width - left - right) / max(1, len(places) - 1)
        return left + step * places.index(place), height - bottom - (height - top - bottom) * value / most

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in range(5):
        value = most * tick / 4
        _, level = at(places[0], value)
        out.append(f'<path d="M{left} {level:.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for place in places:
        out.append(f'<text x="{at(place, 0)[0]:.1f}" y="{height - bottom + 18}" text-anchor="middle">{html.escape(place)}</text>')
    for number, (name, line) in enumerate(points.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in line)
        label = html.escape(f"{lines} {name}")
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{width - right + 12}" y="{top + 18 * number + 4}" fill="{colour}">{label}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">{html.escape(x)}</text>'
               f'<text x="{left}" y="{top - 12}">{html.escape(y)}</text></svg>')
    return "\n".join(out) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("database", help="what moeplan sweep wrote")
    arguments.add_argument("--x", required=True, help="a column of its cases")
    arguments.add_argument("--y", default="makespan_s", help="a column of numbers")
    arguments.add_argument("--lines", required=True, help="a column; a line for each of its values")
    arguments.add_argument("-o", "--output", required=True, help="the plot: .svg, or what Matplotlib writes")
    options = arguments.parse_args()
    points = series(options.database, options.x, options.y, options.lines)
    if not points:
        raise SystemExit(f"{options.database}: no case has a {options.y}")
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(svg(points, options.x, options.y, options.lines))
        return
    for name, line in points.items():
        pyplot.plot([at for at, _ in line], [value for _, value in line], marker="o", label=f"{options.lines} {name}")
    pyplot.xlabel(options.x)
    pyplot.ylabel(options.y)
    pyplot.ylim(bottom=0)
    pyplot.legend()
    pyplot.savefig(options.output)


if __name__ == "__main__":
    main()
