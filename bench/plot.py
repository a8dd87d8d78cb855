"""plot: the times of each way of fusing as bars, one SVG that needs no network; dark where the reader's page is."""
import html

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .faint { fill: #777 } line { stroke: #ddd } .one { stroke: #999 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .faint { fill: #999 } line { stroke: #444 } .one { stroke: #888 } }
"""
COLOURS = ["#8c96a6", "#d08c60", "#c9b458", "#6fa8a0", "#3b6fb6"]
LEFT, WIDTH, BAR, GAP, TOP = 190, 520, 11, 16, 50


def bars(title: str, rows: list[dict], best: str) -> str:
    """rows: {"label", "ms": {mode: ms}}. A bar is as long as its mode's time over that of `best`."""
    modes = list(rows[0]["ms"])
    most = max(ms / row["ms"][best] for row in rows for ms in row["ms"].values())
    step, height = WIDTH / most, TOP + len(rows) * (BAR * len(modes) + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{height + 10}" role="img"><title>{html.escape(title)}</title>',
           f"<style>{STYLE}</style>", f'<text x="10" y="18" font-weight="600">{html.escape(title)}</text>']
    for i, mode in enumerate(modes):
        out += [f'<rect x="{LEFT + i * 90}" y="28" width="10" height="10" fill="{COLOURS[i]}"/>', f'<text x="{LEFT + i * 90 + 15}" y="37">{mode}</text>']
    for tenth in range(0, int(most * 2) + 1):
        x = LEFT + tenth / 2 * step
        out.append(f'<line class="{"one" if tenth == 2 else "half"}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height}"/>')
    for r, row in enumerate(rows):
        y = TOP + r * (BAR * len(modes) + GAP)
        out.append(f'<text x="{LEFT - 8}" y="{y + BAR * len(modes) / 2 + 4}" text-anchor="end">{html.escape(row["label"])}</text>')
        for i, (mode, ms) in enumerate(row["ms"].items()):
            ratio = ms / row["ms"][best]
            out += [f'<rect x="{LEFT}" y="{y + i * BAR}" width="{ratio * step:.1f}" height="{BAR - 1}" fill="{COLOURS[i]}"/>',
                    f'<text class="faint" x="{LEFT + ratio * step + 4:.1f}" y="{y + i * BAR + BAR - 2}" style="font-size:9px">{ms:.3g} ms</text>']
    return "\n".join([*out, "</svg>\n"])
