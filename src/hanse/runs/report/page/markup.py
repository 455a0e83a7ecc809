"""HTML elements whose text is escaped unless it is itself an element."""

from __future__ import annotations

from html import escape

_VOID = frozenset({"br", "col", "hr", "meta"})
_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}


class Html(str):
    """Markup that is safe to include as it is."""

    __slots__ = ()


Child = str | None


def text(value: object) -> Html:
    """Anything as harmless text: control characters made visible, lone surrogates replaced."""
    clean = str(value).translate(_VISIBLE).encode("utf-8", "replace").decode("utf-8")
    return Html(escape(clean, quote=True))


def join(*children: Child) -> Html:
    return Html("".join(c if isinstance(c, Html) else text(c) for c in children if c is not None))


def el(tag: str, /, *children: Child, **attributes: object) -> Html:
    """`class_` is `class`, `stroke_width` is `stroke-width`; attributes that are None are left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")
