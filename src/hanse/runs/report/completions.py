"""The same problems before and after, side by side."""

from __future__ import annotations

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.formats import known, plural, short
from hanse.runs.report.markup import Html, Section, folded, join, section, tag
from hanse.runs.report.reading import grouped, name_level

_MOST_PAIRS = 60
_LONGEST = 4000
_SHORT = 48

Pair = dict[str, Row]


def completions(data: ReportData) -> Section:
    sampled = [row for row in data.completions if not row.get("greedy")]
    greedy = [row for row in data.completions if row.get("greedy")]
    intro = "Some held-out problems and the first completion of each. Text is shown as the model wrote it."
    shown = [_pairs(sampled)] if sampled else []
    shown += [folded("Greedy completions", _pairs(greedy))] if greedy else []
    return section("completions", "Completions", *([tag("p", intro), *shown] if shown else []))


def _pairs(rows: list[Row]) -> Html:
    """One article a problem, at most `_MOST_PAIRS` spread evenly over all of them."""
    groups = list(grouped(rows, _key).values())
    step = max(1, -(-len(groups) // _MOST_PAIRS))
    kept = groups[::step]
    articles = [_article({str(row.get("when")): row for row in group}) for group in kept]
    left_out = len(groups) - len(kept)
    more = f"{plural(left_out, 'more problem')} in completions.jsonl." if left_out else None
    return join(tag("div", *articles, class_="pairs"), tag("p", more, class_="quiet") if more else None)


def _key(row: Row) -> str:
    return repr((row.get("cohort"), row.get("level"), row.get("problem_id")))


def _article(pair: Pair) -> Html:
    known_row = pair.get("after") or pair.get("before") or next(iter(pair.values()))
    where = name_level(in_words(known_row.get("level")))
    owner = known_row.get("cohort")
    sides = [_side(when, pair.get(when)) for when in ("before", "after")]
    short_one = all(
        len(in_words(r.get(k))) <= _SHORT for r in pair.values() for k in ("prompt", "completion")
    )
    return tag(
        "article",
        tag("h3", where, f" · trained by {owner}" if owner else None),
        cell("problem", in_words(known_row.get("prompt"))),
        cell("expected", in_words(known_row.get("answer"))),
        *sides,
        class_="pair short" if short_one else "pair",
    )


def _side(when: str, row: Row | None) -> Html:
    if row is None:
        return tag("div", tag("span", when, class_="label"), tag("p", "not recorded", class_="quiet"))
    return cell(when, in_words(row.get("completion")), reward_badge(row))


def reward_badge(row: Row) -> Html:
    """The reward in words, so that colour is not all there is."""
    if "reward" not in row:
        return Html()
    reward = known(row.get("reward"))
    if reward is None:
        return tag("span", "unscored", class_="badge note")
    kind = "fine" if reward >= 1 else "plain"
    return tag("span", f"reward {short(reward)}", class_=f"badge {kind}")


def cell(label: str, text: str, mark: Html | None = None, kind: str = "") -> Html:
    """A labelled text as it was written. `kind`: its class in the style sheet, the label by default."""
    head = tag("span", tag("span", label, class_="label"), " ", mark)
    body = tag("pre", _clip(text), dir="auto", tabindex="0" if len(text) > 600 else None)
    return tag("div", head, body, class_=f"cell {kind or label}")


def _clip(text: str) -> Html:
    if not text:
        return tag("span", "(empty)", class_="quiet")
    rest = len(text) - _LONGEST
    more = tag("span", f" … {plural(rest, 'more character')}", class_="quiet") if rest > 0 else None
    return join(text[:_LONGEST], more)


def in_words(value: object) -> str:
    """Empty for nothing."""
    return "" if value is None else str(value)
