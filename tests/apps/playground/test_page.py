"""The page in a real browser: what a visitor does, with mouse, keyboard and finger."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from visits import Visit

SMALL = "draws=6&calls=3&seed=0&show=draws,mean,fan"
TWO = f"model=se&points=-1,0.5;1,-0.5&at=0&{SMALL}"


@pytest.fixture
def visit(opened: Callable[..., Visit]) -> Visit:
    return opened(TWO)


def test_points_are_added_dragged_and_removed(visit: Visit) -> None:
    visit.settled()
    before = visit.draws
    assert len(before) == 6
    visit.click(0.0, 1.0)
    visit.status("given 3 points")
    visit.settled()
    assert visit.draws != before
    assert visit.points[-1] == pytest.approx([0, 1], abs=0.02)
    assert visit.page.locator("#posterior .point").count() == 3

    mouse = visit.page.mouse
    mouse.move(*visit.place(0.0, 1.0))
    mouse.down()
    for step in range(1, 6):
        mouse.move(*visit.place(0.1 * step, 1.0 - 0.4 * step))
    mouse.up()
    visit.settled()
    assert visit.points[-1] == pytest.approx([0.5, -1.0], abs=0.02)

    mouse.dblclick(*visit.place(0.5, -1.0))
    visit.status("given 2 points")
    assert visit.points == [[-1, 0.5], [1, -0.5]]
    visit.page.click("#clear")
    visit.status("given 0 points")


def test_functions_are_told_what_is_known(opened: Callable[..., Visit]) -> None:
    visit = opened(f"model=universal&points=-1,0.2;1,0.9&at=0&{SMALL}")
    visit.settled()
    visit.page.check("#facts [value=increasing]")
    visit.status("given 2 points, increasing")
    visit.settled()
    heights = [
        [float(place.split(" ")[1]) for place in line[1:].split("L")] for line in visit.draws
    ]  # pixels from the top
    assert np.diff(heights).max() <= 0.11
    visit.page.check("#facts [value=decreasing]")
    assert not visit.page.is_checked("#facts [value=increasing]")
    visit.page.wait_for_url("**facts=decreasing**")


def test_everything_works_by_keyboard(visit: Visit) -> None:
    visit.settled()
    page = visit.page
    page.focus("#posterior")
    page.keyboard.press("Enter")
    visit.status("given 3 points")
    added = visit.points[-1]
    assert page.evaluate("document.activeElement.classList.contains('point')")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("ArrowLeft")
    moved = visit.points[-1]
    assert moved == pytest.approx([added[0] - 0.04, added[1] + 0.3], abs=1e-3)
    page.keyboard.press("Delete")
    visit.status("given 2 points")
    page.focus("#tab-functions")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#picture")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#search")


def test_a_phone_is_enough(opened: Callable[..., Visit]) -> None:
    visit = opened(TWO, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    visit.settled()
    page = visit.page
    page.touchscreen.tap(*visit.place(0.0, 1.0))
    visit.status("given 3 points")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    small = page.eval_on_selector_all(
        "button, input[type=range], .models label",
        "all => all.filter(e => e.offsetParent && e.getBoundingClientRect().height < 22).map(e => e.id)",
    )
    assert small == []


def test_models_change_and_points_stay_where_they_can(visit: Visit) -> None:
    visit.settled()
    visit.page.check("input[value=matern52]", force=True)
    visit.page.wait_for_url("**/#model=matern52*")
    assert visit.points == [[-1, 0.5], [1, -0.5]]
    visit.page.check("input[value=step]", force=True)
    visit.page.wait_for_url("**/#model=step*")
    visit.status("given 2 points")
    assert visit.points == [[-0.6, 0], [0.5, 1]]
    visit.page.check("input[value=se]", force=True)
    visit.page.wait_for_url("**/#model=se*")
    assert visit.points == [[-1, 0.5], [1, -0.5]]


def test_an_example_that_nobody_touched_changes_with_the_model(opened: Callable[..., Visit]) -> None:
    visit = opened(f"model=se&{SMALL}")
    visit.status("given 4 points")
    visit.page.check("input[value=universal]", force=True)
    visit.status("given 11 points")
    visit.settled()
    assert len(visit.draws) == 6
    listed = visit.page.eval_on_selector_all("[name=model]", "all => all.map(radio => radio.value)")
    assert not {"mnist", "colour", "joint"} & set(listed)


def test_a_slice_shows_the_density_of_the_value_there(opened: Callable[..., Visit]) -> None:
    visit = opened("model=step&points=-0.6,0;0.6,1&at=0.9&draws=24&calls=8&seed=0&show=draws")
    visit.settled()
    page = visit.page
    bars = "#posterior .marginal .bar"
    assert page.locator(bars).count() <= 2, "to the right of all jumps every value is 1"
    page.fill("#slice", "0")
    heights = page.eval_on_selector_all(bars, "all => all.map(b => [+b.getAttribute('y'), +b.getAttribute('width')])")
    ordered = sorted(heights, key=lambda bar: -bar[1])
    assert abs(ordered[0][0] - ordered[1][0]) > 100, "the two longest bars lie far apart: 0 and 1"
    page.wait_for_timeout(250)
    assert "at=0&" in page.url


def test_settings_redraw(visit: Visit) -> None:
    visit.settled()
    page = visit.page
    page.fill("#draws", "9")
    page.wait_for_selector("#posterior[data-draws='9']")
    page.fill("#calls", "5")
    visit.status("5 solver calls")
    before = visit.draws
    page.click("#reseed")
    page.wait_for_function("old => document.querySelector('.draws path').getAttribute('d') !== old", arg=before[0])
    page.mouse.click(*visit.place(-1, 0.5))
    page.fill("#noise", "0.5")
    visit.settled()
    assert visit.points[0] == [-1, 0.5, 0.5]
    page.uncheck("#show [value=fan]")
    assert not page.is_visible("#posterior .fan .wide")
    page.check("#show [value=exact]")
    page.wait_for_function("() => document.querySelectorAll('.exact path')[2].getAttribute('d')")
    assert page.is_visible(".legend .is-exact")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_denoising_can_be_watched(visit: Visit) -> None:
    visit.settled()
    end = visit.draws
    visit.page.click("#animate")
    visit.page.wait_for_selector("#posterior.denoising")
    visit.page.wait_for_function(
        "() => document.querySelector('.noise-level').textContent.startsWith('noise / signal')"
    )
    assert visit.draws != end
    visit.page.wait_for_selector("#posterior:not(.denoising)", timeout=15_000)
    assert visit.draws == end, "it ends with the functions that were there"


def test_the_python_gives_the_numbers_on_the_screen(visit: Visit) -> None:
    visit.idle()
    assert visit.page.get_attribute("#posterior .marginal .curve", "d"), (
        "at rest there is the exact density of the slice"
    )
    visit.page.click("#python")
    visit.status("Copied")
    code = visit.page.evaluate("navigator.clipboard.readText()")
    with visit.page.expect_download() as download:
        visit.page.click("#csv")
    with Path(download.value.path()).open() as file:
        rows = list(csv.DictReader(file))
    names: dict[str, Any] = {}
    exec(code, names)
    np.testing.assert_allclose([float(row["x1"]) for row in rows], names["grid"], atol=1e-6)
    for name in ("mean", "std"):
        np.testing.assert_allclose([float(row[name]) for row in rows], names[name], atol=1e-4)
    for index, draw in enumerate(names["draws"]):
        np.testing.assert_allclose([float(row[f"draw{index + 1}"]) for row in rows], draw, atol=1e-4)


def test_a_link_brings_back_what_was_there(visit: Visit, opened: Callable[..., Visit]) -> None:
    visit.settled()
    visit.click(0.4, 0.8)
    visit.status("given 3 points")
    visit.settled()
    visit.page.click("#link")
    visit.status("Copied")
    link = visit.page.evaluate("navigator.clipboard.readText()")
    again = opened(link)
    again.settled()
    assert again.points == visit.points
    assert again.draws == visit.draws


def test_pictures_are_saved(visit: Visit) -> None:
    visit.settled()
    with visit.page.expect_download() as download:
        visit.page.click("#png")
    assert download.value.suggested_filename == "ndp-se.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


DROP = """([text, kind]) => {
  const data = new DataTransfer();
  if (kind === "drop") data.items.add(new File([text], "points.csv", { type: "text/csv" }));
  else data.setData("text", text);
  const event = kind === "drop"
    ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
    : new ClipboardEvent("paste", { clipboardData: data, bubbles: true });
  document.querySelector(kind === "drop" ? "#functions .stage" : "body").dispatchEvent(event);
}"""


def test_tables_are_dropped_pasted_and_opened(visit: Visit) -> None:
    visit.settled()
    visit.page.evaluate(DROP, ["x1,y,noise\n-1.5,2.5,0.1\n0,5,\n1.5,-1,0\n", "drop"])
    visit.status("given 3 points")
    assert visit.points == [[-1.5, 2.5, 0.1], [0, 5], [1.5, -1]]
    labels = visit.page.eval_on_selector_all("#posterior .grid text", "all => all.map(t => t.textContent)")
    assert "4" in labels, "the axis reaches to the points"
    visit.page.evaluate(DROP, ["0.5\t1\n", "paste"])
    visit.status("given 1 point,")
    table = {"name": "p.csv", "mimeType": "text/csv", "buffer": b"x;y\n1;1\n-1;0\n"}
    visit.page.set_input_files("#file", table)
    visit.status("given 2 points")
    for text, words in (
        ("x,y\n0,many\n", "Row 2: y must be a number, not “many”"),
        ("x,y\n9,0\n", "Row 2: x = 9 is outside -2 to 2"),
        ("a,b\n1,2\n", "needs columns x and y; it has a, b"),
        ("x,y\n", "has no rows"),
        ("x,y\n" + "0,0\n" * 101, "at most 100"),
    ):
        visit.page.evaluate(DROP, [text, "drop"])
        visit.status(words)
    assert visit.points == [[1, 1], [-1, 0]], "a table with a mistake changes nothing"


def test_the_hidden_function_is_searched(opened: Callable[..., Visit]) -> None:
    page = opened("tab=optimise").page
    page.wait_for_selector("#optimise[data-evaluations='0']")
    page.click("#step")
    page.wait_for_selector("#optimise[data-evaluations='1']")
    assert page.locator("#search .draws path").count() == 0, "the first points are random"
    page.click("#run")
    page.wait_for_selector("#optimise[data-evaluations='5']", timeout=60_000)
    assert page.locator("#search .draws path").count() == 11
    assert page.get_attribute("#search .deciding", "d")
    assert page.locator("#search .seen circle, #search circle.seen").count() >= 5
    page.check("#reveal")
    assert page.get_attribute("#search .truth", "d")
    page.uncheck("#reveal")
    assert not page.get_attribute("#search .truth", "d")
    assert float(page.inner_text("#regret")) >= 0
    page.click("#again")
    page.wait_for_selector("#optimise[data-evaluations='0']")


def test_a_joint_model_is_asked_where_the_minimum_is(opened: Callable[..., Visit]) -> None:
    visit = opened("tab=optimise")
    page = visit.page
    page.wait_for_selector("#optimise[data-evaluations='0']")
    page.check("[name=method][value=joint]", force=True)
    assert not page.is_visible("#searchers")
    assert "places x* drawn for y*" in page.inner_text("#optimise .legend")
    for step in (1, 2, 3):
        page.click("#step")
        page.wait_for_selector(f"#optimise[data-evaluations='{step}']", timeout=30_000)
        assert (page.locator("#search .places .bar").count() > 0) == (step > 2), "the first points are random"
    visit.status("a place drawn for y*")
    assert page.text_content("#search .asked").startswith("y* = ")
    assert page.locator("#search .draws path").count() == 0
    assert page.locator("#search .drop").count() == 2, "the value that is asked for, and the place"
    page.check("[name=method][value=thompson]", force=True)
    page.wait_for_selector("#optimise[data-evaluations='0']")
    assert page.is_visible("#searchers")
    assert page.locator("#search .places .bar").count() == 0


def test_the_newest_question_wins(visit: Visit) -> None:
    """However fast questions come, the last answer is that of the last question, and few are asked."""
    visit.settled()
    asked: list[str] = []
    visit.page.on("request", lambda made: asked.append(made.url) if made.url.endswith("/draws") else None)
    for value in range(10, 31):
        visit.page.evaluate(
            "value => { const s = document.querySelector('#draws'); s.value = value; s.dispatchEvent(new Event('input')); }",
            value,
        )
    visit.page.wait_for_selector("#posterior[data-draws='30']", timeout=30_000)
    visit.settled()
    assert len(visit.draws) == 30
    assert len(asked) < 12


def test_labels_and_contrast(visit: Visit) -> None:
    """Every control has a name, and words stand out from what is behind them, in both themes."""
    visit.settled()
    unnamed = visit.page.eval_on_selector_all(
        "button, input:not([type=file]), [role=tab], svg[tabindex], .point",
        """all => all.filter(e => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))
                      .map(e => e.outerHTML)""",
    )
    assert unnamed == []
    for theme in ("light", "dark"):
        ratios = visit.page.evaluate(
            """theme => {
              document.documentElement.dataset.theme = theme;
              const style = getComputedStyle(document.documentElement);
              const light = (name) => {
                const hex = style.getPropertyValue(name).trim().slice(1);
                const [r, g, b] = [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
                  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
              return [["--ink", "--card"], ["--muted", "--card"], ["--muted", "--paper"], ["--muted", "--soft"],
                      ["--on-accent", "--accent"], ["--problem", "--paper"]].map(([a, b]) => ratio(a, b));
            }""",
            theme,
        )
        assert min(ratios) > 4.5, ratios
