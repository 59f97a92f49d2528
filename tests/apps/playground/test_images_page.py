"""The tab Images in a real browser: pixels shown, hidden and drawn, and what the rest could be."""

import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from visits import Visit

QUICK = "calls=2&seed=0"
BLACK = "ink=" + "0" * 784  # a picture that need not be drawn first
DIGIT = f"tab=images&model=mnist&{BLACK}&known=all&{QUICK}"  # nor completed


class Easel(Visit):
    """The tab Images, and what can be seen and done on it."""

    def ready(self) -> None:
        self.page.wait_for_selector("#images[data-state=idle]", timeout=60_000)

    def changed(self) -> None:
        """Wait for the answer to what was just done."""
        self.page.wait_for_selector("#images[data-state=busy]")
        self.ready()

    @property
    def address(self) -> dict[str, str]:
        self.page.wait_for_timeout(250)
        return {key: values[0] for key, values in parse_qs(urlsplit(self.page.url).fragment).items()}

    @property
    def known(self) -> np.ndarray:
        """Which pixels are shown, as the canvas has them: hidden ones are let through."""
        pixels = self.pixels("#picture")
        return pixels[..., 3] == 255

    def pixels(self, selector: str) -> np.ndarray:
        size, values = self.page.eval_on_selector(
            selector,
            """c => {
              const copy = new OffscreenCanvas(c.width, c.height).getContext('2d');
              copy.drawImage(c, 0, 0);
              return [c.width, [...copy.getImageData(0, 0, c.width, c.height).data]];
            }""",
        )
        return np.array(values).reshape(size, size, 4)

    @property
    def completions(self) -> list[np.ndarray]:
        return [self.pixels(f"#completions canvas:nth-child({k + 1})") for k in range(6)]

    def place(self, row: float, column: float) -> tuple[float, float]:
        """Where in the window the middle of a pixel is."""
        box = self.page.locator("#picture").bounding_box()
        size = self.page.eval_on_selector("#picture", "c => c.width")
        return box["x"] + box["width"] * (column + 0.5) / size, box["y"] + box["height"] * (row + 0.5) / size

    def drag(self, *places: tuple[float, float]) -> None:
        self.page.mouse.move(*self.place(*places[0]))
        self.page.mouse.down()
        for place in places[1:]:
            self.page.mouse.move(*self.place(*place))
        self.page.mouse.up()


@pytest.fixture
def easel(opened: Callable[..., Visit]) -> Easel:
    easel = Easel(opened(DIGIT).page)
    easel.ready()
    return easel


def test_pixels_are_hidden_shown_and_completed(easel: Easel) -> None:
    easel.page.click(".presets [value=upper]")
    easel.changed()
    assert easel.known[:14].all()
    assert not easel.known[14:].any()
    before = easel.completions
    assert all(picture.shape == (28, 28, 4) for picture in before)
    assert all((picture[:14, :, :3] == 0).all() for picture in before), "what is known is kept"
    assert any((picture[14:, :, :3] > 0).any() for picture in before)

    easel.page.check("[name=tool][value=hide]", force=True)
    easel.drag((3, 3), (3, 20))
    assert not easel.known[3, 3:21].any()
    assert easel.known[8].all()
    easel.page.check("[name=tool][value=show]", force=True)
    easel.page.fill("#brush", "1")
    easel.drag((20, 20), (20, 20))
    easel.changed()
    assert easel.known[14:].sum() == 1, "a brush of width 1 is one pixel"
    assert easel.known[20, 20]
    assert any((a != b).any() for a, b in zip(before, easel.completions, strict=True))
    spread = easel.pixels("#spread")[..., 3]
    assert spread[8].max() == 0, "completions agree where pixels are known"


def test_presets(easel: Easel) -> None:
    for preset, pixels in (("left", 392), ("upper", 392), ("none", 0), ("random5", 39), ("random10", 78)):
        easel.page.click(f".presets [value={preset}]")
        assert easel.known.sum() == pixels
        assert easel.page.inner_text("#share") == f"{pixels / 7.84:.0f} %"
    easel.status("6 completions of 78 pixels, 2 solver calls")


def test_with_every_pixel_there_is_nothing_to_do(easel: Easel) -> None:
    asked: list[str] = []
    easel.page.on("request", lambda made: asked.append(made.url) if "/api/" in made.url else None)
    easel.page.click(".presets [value=none]")
    easel.page.click(".presets [value=all]")
    easel.changed()
    easel.status("nothing to complete")
    assert asked == []
    assert easel.pixels("#spread")[..., 3].max() == 0
    assert easel.address["known"] == "all"


def test_a_digit_is_drawn_by_hand_and_shared(easel: Easel, opened: Callable[..., Visit]) -> None:
    easel.page.click("#blank")
    assert not easel.known.any()
    easel.drag((5, 14), (10, 14), (15, 14))
    easel.changed()
    ink = easel.pixels("#picture")
    assert (ink[5:15, 14, :3] > 200).all()
    assert easel.known[10, 13:16].all()
    assert not easel.known[10, :12].any(), "what is beside a stroke is for the model to say"
    easel.page.click("#share-link")
    easel.status("Copied: a link")
    again = Easel(opened(easel.page.evaluate("navigator.clipboard.readText()")).page)
    again.ready()
    np.testing.assert_array_equal(again.pixels("#picture"), ink)
    for old, new in zip(easel.completions, again.completions, strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_models_own_pictures_and_the_change_to_colour(opened: Callable[..., Visit]) -> None:
    easel = Easel(opened(f"tab=images&model=mnist&picture=3&known=all&{QUICK}").page)
    easel.ready()
    first = easel.pixels("#picture")
    assert (first[:, :14, :3] > 200).any(), "there is a digit"
    easel.page.click("#another")
    easel.changed()
    assert (easel.pixels("#picture") != first).any()
    assert easel.known.all(), "another picture, seen through the same window"
    assert re.fullmatch(r"\d+", easel.address["picture"])
    easel.page.check("[name=pictures][value=colour]", force=True)
    easel.changed()
    assert easel.address["model"] == "colour"
    picture = easel.pixels("#picture")
    assert picture.shape == (32, 32, 4)
    assert (picture[..., 0] != picture[..., 2]).any(), "in colour"
    assert not easel.page.is_visible("#pen")
    assert not easel.page.is_visible("#blank")


def test_a_picture_that_is_being_drawn_can_be_painted_on(opened: Callable[..., Visit]) -> None:
    easel = Easel(opened(f"tab=images&model=mnist&picture=3&known=all&{QUICK}").page)
    easel.page.wait_for_selector("#images .canvas.waiting")
    easel.page.check("[name=tool][value=hide]", force=True)
    easel.drag((20, 20), (20, 20))
    assert easel.page.is_visible("#images .canvas.waiting")
    easel.ready()
    assert not easel.known[20, 20]
    assert (easel.pixels("#picture")[..., 0] > 200).any(), "the picture has come all the same"
    assert easel.address["picture"] == "3"
    easel.page.click("#tab-functions")
    easel.status("given 4 points, 7 solver calls")
    easel.page.click("#tab-images")
    assert easel.address["picture"] == "3"


def test_a_picture_is_opened_and_dropped(easel: Easel) -> None:
    paper = Image.new("L", (120, 60), 255)
    paper.paste(0, (55, 10, 65, 50))
    file = BytesIO()
    paper.save(file, "png")
    picture: Any = {"name": "one.png", "mimeType": "image/png", "buffer": file.getvalue()}
    easel.page.set_input_files("#picture-file", picture)
    easel.changed()
    ink = easel.pixels("#picture")
    assert ink[12, 13:15, 0].min() > 200, "dark strokes on white paper are turned round"
    assert ink[12, :5, 0].max() < 30
    easel.page.set_input_files("#picture-file", picture | {"buffer": b"no picture"})
    easel.status("cannot read this file as a picture")
    np.testing.assert_array_equal(easel.pixels("#picture"), ink)


@pytest.mark.parametrize("picture", [BLACK, "picture=3"])
def test_the_python_gives_the_completions_and_the_png_shows_them(
    opened: Callable[..., Visit], picture: str, tmp_path: Path
) -> None:
    easel = Easel(opened(f"tab=images&model=mnist&{picture}&known=upper&{QUICK}").page)
    easel.ready()
    easel.page.click("#copy-python")
    easel.status("Copied: the Python")
    found: dict[str, Any] = {}
    exec(easel.page.evaluate("navigator.clipboard.readText()"), found)
    for ours, shown in zip(found["completions"], easel.completions, strict=True):
        np.testing.assert_allclose(255 * ours[..., 0], shown[..., 0], atol=2)
    with easel.page.expect_download() as download:
        easel.page.click("#picture-png")
    download.value.save_as(tmp_path / "all.png")
    strip = np.asarray(Image.open(tmp_path / "all.png").convert("RGB"))
    assert strip.shape == (28 * 8 + 16, 9 * (28 * 8 + 8) + 8, 3)
    second = strip[8 : 8 + 224 : 8, 2 * 232 + 8 : 2 * 232 + 232 : 8]
    np.testing.assert_array_equal(second, easel.completions[1][..., :3])


def test_everything_works_by_keyboard(easel: Easel) -> None:
    easel.page.click(".presets [value=upper]")
    easel.page.focus("#picture")
    easel.page.keyboard.press("ArrowDown")
    easel.status("Row 16, column 15: hidden")
    easel.page.keyboard.press("Shift+ArrowRight")
    easel.status("Row 16, column 19: hidden")
    easel.page.keyboard.press("Space")
    assert easel.known[15, 18]
    assert easel.page.is_visible("#images .cursor")
    assert easel.page.evaluate("document.activeElement.id") == "picture"


def test_a_phone_is_enough(opened: Callable[..., Visit]) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    easel = Easel(opened(DIGIT, **phone).page)
    easel.ready()
    easel.page.click(".presets [value=none]")
    easel.page.locator("#picture").scroll_into_view_if_needed()
    easel.page.touchscreen.tap(*easel.place(20, 10))
    assert easel.known[20, 10]
    assert easel.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"


def test_a_newer_question_stops_the_older(easel: Easel) -> None:
    easel.page.click(".presets [value=none]")
    easel.page.fill("#picture-calls", "30")
    easel.status("Drawing completions 1 and 2 of 6")
    easel.page.fill("#picture-calls", "3")
    easel.ready()
    easel.status("3 solver calls")
    assert easel.page.request.get(easel.page.url.split("#")[0] + "api/health").json()["waiting"] == 0


def test_every_control_has_a_name(easel: Easel) -> None:
    unnamed = easel.page.eval_on_selector_all(
        "#images button, #images input:not([type=file]), #images canvas",
        """all => all.filter(e => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))
                      .map(e => e.outerHTML)""",
    )
    assert unnamed == []
