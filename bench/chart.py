"""The figures as a picture: each as a bar beside its floor and its target, on a scale of its own."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from bench import Figure

WIDTH, ROW, LEFT, BAR = 900, 34, 430, 330


def drawn(figures: Sequence[Figure]) -> str:
    """Return an SVG document."""
    rows = "".join(part for place, figure in enumerate(figures) for part in _row(place, figure))
    height = ROW * len(figures) + 40
    legend = (
        "bar: ours (green: target met, red: missed) · black line: target · grey line: floor of the same run"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'{rows}<text x="10" y="{height - 12}" fill="#555">{legend}</text></svg>\n'
    )


def _row(place: int, figure: Figure) -> Iterator[str]:
    top = place * ROW + 10
    wanted = figure.limit
    if wanted is None and figure.floor is not None and figure.target is not None:
        wanted = figure.floor * figure.target
    most = max(figure.value, wanted or 0.0, figure.floor or 0.0) or 1.0
    colour = {True: "#2e8b57", False: "#c0392b", None: "#5b7fa6"}[figure.met]
    yield f'<text x="{LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(figure.name)}</text>'
    yield f'<rect x="{LEFT}" y="{top}" width="{BAR * figure.value / most:.1f}" height="18" fill="{colour}"/>'
    for at, stroke in ((figure.floor, "#999"), (wanted, "#000")):
        if at is not None:
            x = LEFT + BAR * at / most
            yield f'<path d="M{x:.1f} {top - 3}v24" stroke="{stroke}" stroke-width="2"/>'
    shown = f"{figure.value:,.1f} {figure.unit}"
    yield f'<text x="{LEFT + BAR + 12}" y="{top + 14}">{escape(shown)}</text>'
