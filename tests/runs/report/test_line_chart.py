"""Lines of a report, as they are drawn."""

from __future__ import annotations

import pytest

from hanse.runs.report.chart import Chart, Series, line_chart


def drawn(points, look: int | str = 0) -> str:
    return str(line_chart(Chart("Reward", "by round", [Series("a", points, look)])))


@pytest.mark.parametrize("look", [0, "faint"])
def test_a_single_round_is_a_dot(look):
    assert drawn([(3.0, 0.5)], look).count(" alone") == 1
    assert " alone" not in drawn([(3.0, 0.5), (4.0, 0.6)], look)
