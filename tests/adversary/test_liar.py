from __future__ import annotations

from hanse.adversary.liar import lie
from hanse.federation.messages import Payload, Report, Resync, Upload
from hanse.federation.signal import Signal
from hanse.recipe.adversary import AdversarySpec

SPEC = AdversarySpec(clients=[0], factor=10)
HONEST = Signal(0.01, 0.03, 160, 5, 100, reward_std_pooled=0.1)


def test_an_inflated_signal_is_one_that_could_be_true():
    told = Report.from_bytes(lie(SPEC, Report(3, 0, "b", HONEST, 7).to_bytes()))
    assert (told.signal.reward_mean, told.signal.reward_std, told.signal.reward_std_pooled) == (0.5, 0.3, 0.5)
    assert (told.round, told.client, told.base, told.changed) == (3, 0, "b", 7)


def test_an_upload_tells_the_same_lie_and_keeps_its_values():
    upload = Upload(3, 0, "b", "float32", HONEST, Payload("values", b"\0" * 8), 7)
    told = Upload.from_bytes(lie(SPEC, upload.to_bytes()), max_bytes=1 << 16)
    assert told.signal == Report.from_bytes(lie(SPEC, Report(3, 0, "b", HONEST, 7).to_bytes())).signal
    assert bytes(told.payload.data) == b"\0" * 8


def test_other_messages_pass():
    plea = Resync(3, 0).to_bytes()
    assert lie(SPEC, plea) == plea
