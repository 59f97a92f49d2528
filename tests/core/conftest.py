"""A model for the tests of arrays."""

import pytest

import ndp


@pytest.fixture(params=["gp-se", "oracle-se"])
def model(request: pytest.FixtureRequest) -> ndp.GP | ndp.NDP:
    return ndp.load(request.param)
