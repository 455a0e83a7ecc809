"""HTML that is safe by construction: whatever isn't `Html` already gets escaped."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
_VOID = frozenset({"meta", "col", "br"})

Value = str | float | bool | None


class Html(str):
    """Markup. Joining it with `+` gives plain text again, which is escaped: a slip shows, it doesn't run."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Text as markup; control characters and lone surrogates become visible replacements."""
    clean = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "replace").decode())
    return Html(html.escape(clean))


def join(*parts: str | None) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts if part))


def tag(name: str, /, *children: str | None, **attributes: Value) -> Html:
    """An element. `class_` is class, `aria_label` aria-label; None and False leave an attribute out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(value if isinstance(value, str) else f"{value:g}")}"'


@dataclass(frozen=True)
class Section:
    """A part of the page that its navigation reaches; left out where `body` is empty."""

    key: str
    title: str
    body: Html


def section(key: str, title: str, *children: str | None) -> Section:
    return Section(key, title, join(*children))


def folded(title: str, *children: str | None) -> Html:
    """Something to open on demand."""
    return tag("details", tag("summary", title), *children)
