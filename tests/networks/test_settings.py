"""Networks whose settings make no sense are refused where they are made."""

from typing import Any

import pytest

from ndp.networks.registry import make_network
from ndp.networks.settings import MOST, check_settings

SMALL: dict[str, dict[str, Any]] = {
    "bidimensional": {"width": 16, "heads": 2, "blocks": 1, "level_width": 8},
    "joint": {"width": 16, "heads": 2, "blocks": 1, "level_width": 8, "anchor_points": 4},
    "image": {"width": 16, "heads": 2, "blocks": 1, "level_width": 8, "expansion": 2},
}


@pytest.mark.parametrize("kind", list(SMALL))
@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_a_size_out_of_range_is_refused(kind: str, number: int) -> None:
    assert make_network(kind=kind, **SMALL[kind]).config["width"] == 16
    for name in SMALL[kind]:
        if name == "anchor_points" and number == 0:  # there may be none
            continue
        with pytest.raises(ValueError, match=f"{name} must be a whole number from . to .*, not {number}"):
            make_network(kind=kind, **(SMALL[kind] | {name: number}))


@pytest.mark.parametrize("value", ["64", 64.0, True, None, [64], 10**400])
def test_a_size_that_is_no_whole_number_is_refused(value: object) -> None:
    for name in MOST:
        with pytest.raises(ValueError, match=f"{name} must be a whole number from . to {MOST[name]:,}, not"):
            check_settings({name: value})


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_switch_is_true_or_false(value: object) -> None:
    check_settings({"experts": True}, switches=("experts",))
    with pytest.raises(ValueError, match="experts must be true or false, not"):
        check_settings({"experts": value}, switches=("experts",))


def test_heads_divide_the_width_and_levels_have_pairs() -> None:
    with pytest.raises(ValueError, match="width must be a multiple of twice the number of heads"):
        make_network(width=20, heads=8)
    with pytest.raises(ValueError, match="level_width must be even, for sines and cosines; 9 is not"):
        make_network(level_width=9)
    with pytest.raises(ValueError, match="there is no network named 'deep'; there are: bidimensional, image, joint"):
        make_network(kind="deep")
