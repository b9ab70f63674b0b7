"""A small SVG writer: latency over time of publication, one panel per run, logarithmic."""
import math

WIDTH, HEIGHT, LEFT, TOP, GAP = 440, 300, 60, 40, 30
LOW_MS, DECADES = 1.0, 5
SHORT_COLOUR, LONG_COLOUR = "#c2410c", "#1d4ed8"


def _text(x, y, text, anchor="middle", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{text}</text>'


def _y(ms):
    share = math.log10(max(ms, LOW_MS) / LOW_MS) / DECADES
    return TOP + HEIGHT * (1 - min(1.0, share))


def _panel(left, title, points, span):
    out = [_text(left + WIDTH / 2, TOP - 14, title, size=15),
           f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>']
    for decade in range(DECADES + 1):
        y, ms = _y(LOW_MS * 10 ** decade), LOW_MS * 10 ** decade
        label = f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"
        out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(_text(left - 6, y + 4, label, "end", 11))
    for at, ms, short in points:
        colour = SHORT_COLOUR if short else LONG_COLOUR
        out.append(f'<circle cx="{left + WIDTH * at / span:.1f}" cy="{_y(ms):.1f}" r="1.6" '
                   f'fill="{colour}" fill-opacity="0.6"/>')
    out.append(_text(left + WIDTH / 2, TOP + HEIGHT + 20, f"time of publication, 0 to {span:.0f} s"))
    return out


def svg(panels):
    """panels: [(title, [(at_s, latency_ms, is_short)])]"""
    span = max((p[0] for _, points in panels for p in points), default=0.0) or 1.0
    total = len(panels) * (LEFT + WIDTH + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{TOP + HEIGHT + 60}" '
           'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>']
    for index, (title, points) in enumerate(panels):
        out += _panel(LEFT + index * (LEFT + WIDTH + GAP), title, points, span)
    y = TOP + HEIGHT + 44
    out += [f'<circle cx="{LEFT}" cy="{y - 4}" r="4" fill="{SHORT_COLOUR}"/>', _text(LEFT + 10, y, "short jobs", "start"),
            f'<circle cx="{LEFT + 110}" cy="{y - 4}" r="4" fill="{LONG_COLOUR}"/>',
            _text(LEFT + 120, y, "bulk jobs: publication to end of handler", "start"), "</svg>"]
    return "\n".join(out) + "\n"
