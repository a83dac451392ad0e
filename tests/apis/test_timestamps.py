"""Times as objects carry them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fairway.apis.machinery.timestamps import stamp


@pytest.mark.parametrize(
    ("moment", "want"),
    [
        pytest.param(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z", id="whole seconds"),
        pytest.param(datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC), "2026-01-02T03:04:05Z", id="never rounded up"),
        pytest.param(
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05Z", id="always UTC"
        ),
    ],
)
def test_a_time_as_kubernetes_writes_it(moment: datetime, want: str) -> None:
    assert stamp(moment) == want
