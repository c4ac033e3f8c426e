"""The picture of the queue, measured: nothing overlaps, nothing is too small to read, no line runs through a box."""

from __future__ import annotations

import random
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest

from dyda.model.message import DataUpdate, UpdateMessage
from dyda.model.relation import RelationName
from dyda.queue_picture import Line, Picture, Rectangle, Scene, lay_out, picture_of, render
from dyda.queue_picture.measuring import fitted, width_of
from dyda.queue_picture.placing import place
from dyda.queue_picture.routing import Tracks, route_edges
from scheduler import Consistency, EdgeKind, MessageState, Queued, Schedule
from tests.unit.scheduler.builders import data, schema, view

TABLES = {
    "crm": ("customer", "address", "phone_number"),
    "booking": ("flight_res", "flight"),
    "tours": ("tour", "guide"),
    "people": ("participant",),
}
VIEWS = [
    view("asia_customer", "crm.customer", "booking.flight_res"),
    view("asia_trip", "crm.customer", "tours.tour"),
    view("guides", "tours.guide", "people.participant"),
]
SMALLEST = 9.0


def boxes_of(scene: Scene, role: str) -> list[Rectangle]:
    return [rectangle for rectangle in scene.rectangles if rectangle.role == role]


def overlap(one: Rectangle, other: Rectangle) -> bool:
    """Whether they share more than a border."""
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


def contains(one: Rectangle, other: Rectangle) -> bool:
    return one.x <= other.x and one.y <= other.y and other.right <= one.right and other.bottom <= one.bottom


def queue(count: int, seed: int) -> list[Queued]:
    """Random messages: mostly rows, some schema changes, some of relations that no view reads."""
    chance = random.Random(seed)
    found = []
    for number in range(1, count + 1):
        source = chance.choice(sorted(TABLES))
        name = f"{source}.{chance.choice(TABLES[source])}"
        if chance.random() < 0.12:
            found.append(schema(number, name, chance.choice(["ALTER TABLE", "TRUNCATE", "DROP TABLE"])))
        else:
            found.append(data(number, name, rows=chance.choice([1, 30, 4000])))
    return found


def picture(
    messages: Sequence[Queued],
    consistency: Consistency = Consistency.STRONG,
    held: Sequence[int] = (),
    limit: int | None = None,
) -> Picture:
    schedule = Schedule(VIEWS)
    schedule.add(messages)
    for number in held:
        schedule.mark(number, MessageState.HELD)
    units = list(schedule.units(consistency, 100_000))
    return picture_of(schedule.drawing(), units, {queued.number: queued.message for queued in messages}, limit)


def cases() -> list[Picture]:
    """50 messages each: batches and single ones, merged groups, held messages and what waits for them."""
    found = [picture(queue(50, seed), Consistency.STRONG) for seed in range(6)]
    found += [picture(queue(50, seed), Consistency.COMPLETE, held=(9, 21)) for seed in range(6, 9)]
    found += [picture(queue(50, seed), Consistency.STRONG, held=(5, 17, 30)) for seed in range(9, 14)]
    return found


CASES = cases()


@pytest.fixture(params=range(len(CASES)), scope="module")
def drawn(request: pytest.FixtureRequest) -> tuple[Picture, Scene]:
    return CASES[request.param], lay_out(CASES[request.param])


def boxes(picture: Picture, scene: Scene) -> dict[int, Rectangle]:
    return dict(zip((node.number for node in picture.drawing.nodes), boxes_of(scene, "message"), strict=True))


def test_the_cases_show_what_they_should() -> None:
    assert all(len(case.drawing.nodes) == 50 for case in CASES)
    assert sum(bool(case.drawing.groups) for case in CASES) > 5
    assert any(block.waits and block.merged for case in CASES for block in case.blocks)
    assert {edge.kind for case in CASES for edge in case.drawing.edges} == set(EdgeKind)


def test_no_boxes_overlap(drawn: tuple[Picture, Scene]) -> None:
    _, scene = drawn
    assert len(boxes_of(scene, "message")) == 50
    for role in ("message", "group", "band"):
        for one, other in combinations(boxes_of(scene, role), 2):
            assert not overlap(one, other), f"two boxes of role {role} overlap"


def test_a_group_holds_its_messages_and_no_others(drawn: tuple[Picture, Scene]) -> None:
    picture, scene = drawn
    groups = [block.numbers for block in picture.blocks if block.merged]
    assert sorted(groups) == sorted(picture.drawing.groups)
    for group, around in zip(groups, boxes_of(scene, "group"), strict=True):
        for number, box in boxes(picture, scene).items():
            assert contains(around, box) if number in group else not overlap(around, box)


def test_each_message_stands_in_the_band_of_its_unit(drawn: tuple[Picture, Scene]) -> None:
    picture, scene = drawn
    placed = boxes(picture, scene)
    for block, band in zip(picture.blocks, boxes_of(scene, "band"), strict=True):
        assert all(contains(band, placed[number]) for number in block.numbers)


def test_texts_are_large_enough_and_stay_where_they_belong(drawn: tuple[Picture, Scene]) -> None:
    picture, scene = drawn
    assert min(text.size for text in scene.texts) >= SMALLEST
    inside = 0
    for text in scene.texts:
        width = width_of(text.text, text.size, text.bold)
        left = text.x - {"start": 0, "middle": width / 2, "end": width}[text.anchor]
        assert left >= 0
        assert left + width <= scene.width
        assert text.size <= text.y <= scene.height
        for box in boxes_of(scene, "message"):
            if box.x <= text.x <= box.right and box.y <= text.y <= box.bottom:
                assert box.x < left
                assert left + width < box.right, f"{text.text!r} sticks out of its box"
                assert box.y <= text.y - text.size
                inside += 1
    assert inside >= 3 * len(picture.drawing.nodes)


def test_no_line_runs_through_a_box(drawn: tuple[Picture, Scene]) -> None:
    _, scene = drawn
    for line in scene.lines:
        for box in boxes_of(scene, "message"):
            for start, end in pairwise(line.points):
                through = all(
                    min(start[axis], end[axis]) < after and before < max(start[axis], end[axis])
                    if start[axis] != end[axis]
                    else before < start[axis] < after
                    for axis, (before, after) in enumerate(((box.x, box.right), (box.y, box.bottom)))
                )
                assert not through, f"a {line.role} line runs through a box"


def test_lines_of_different_messages_never_lie_on_each_other(drawn: tuple[Picture, Scene]) -> None:
    """Along gutters and channels. Where they end at the same box they may meet: that is where they lead."""
    _, scene = drawn
    pieces: list[tuple[Line, int, float, float, float]] = []
    for line in scene.lines:
        if line.role == "legend":
            continue
        for index, (start, end) in enumerate(pairwise(line.points)):
            axis = 0 if start[0] == end[0] else 1
            if len(line.points) == 2 or 0 < index < len(line.points) - 2:
                low, high = sorted((start[1 - axis], end[1 - axis]))
                pieces.append((line, axis, start[axis], low, high))
    for (one, axis, at, low, high), (other, *its) in combinations(pieces, 2):
        if (one.role, one.points[0]) != (other.role, other.points[0]) and [axis, at] == its[:2]:
            assert high <= its[2] or its[3] <= low


def test_edges_of_both_kinds_are_drawn_apart(drawn: tuple[Picture, Scene]) -> None:
    picture, scene = drawn
    for kind in EdgeKind:
        lines = [line for line in scene.lines if line.role == kind.value]
        assert len(lines) == sum(edge.kind is kind for edge in picture.drawing.edges)
    looks = {(line.colour, line.dashed) for line in scene.lines}
    assert len({colour for colour, _ in looks}) == len({dashed for _, dashed in looks}) == len(looks)


def test_every_edge_leads_from_the_first_to_the_one_that_waits(drawn: tuple[Picture, Scene]) -> None:
    picture, scene = drawn
    placed = boxes(picture, scene)
    lines = [line for line in scene.lines if line.role != "legend"]
    for edge, line in zip(picture.drawing.edges, lines, strict=True):
        for number, (x, y) in ((edge.before, line.points[0]), (edge.after, line.points[-1])):
            box = placed[number]
            assert box.x <= x <= box.right
            assert box.y <= y <= box.bottom


def test_the_legend_explains_what_is_there() -> None:
    said = " ".join(text.text for text in lay_out(CASES[-1]).texts)
    for word in ("data update", "schema change", "held or", "merged: processed as one", "semantic:", "concurrency:"):
        assert word in said
    plain = " ".join(text.text for text in lay_out(picture([data(1, "crm.customer")])).texts)
    assert "1 pending message" in plain
    assert not any(word in plain for word in ("schema", "merged", "semantic", "held"))


def test_the_order_of_processing_runs_from_top_to_bottom() -> None:
    """Figure 5a of paper 001: the schema change comes later and is processed first."""
    shown = picture([data(1, "crm.customer"), schema(2, "booking.flight_res", "ALTER TABLE")])
    placed = boxes(shown, lay_out(shown))
    assert placed[2].bottom < placed[1].y
    assert [block.numbers for block in shown.blocks] == [(2,), (1,)]


def test_sources_that_wait_for_each_other_are_neighbours() -> None:
    messages = [data(1, "people.participant"), data(2, "crm.customer"), data(3, "tours.guide")]
    lanes = place(picture([*messages, schema(4, "tours.guide", "ALTER TABLE")])).lanes
    assert abs(lanes.index("people") - lanes.index("tours")) == 1


def test_a_line_past_a_lane_takes_a_channel_and_two_gutters() -> None:
    """Three sources wait for a fourth: whichever order the lanes have, one edge must pass another lane."""
    views = [view("v", "crm.a", "booking.b", "tours.c", "people.d")]
    messages = [data(number, name) for number, name in enumerate(("crm.a", "tours.c", "people.d"), 1)]
    messages.append(schema(4, "booking.b", "ALTER TABLE"))
    schedule = Schedule(views)
    schedule.add(messages)
    shown = picture_of(
        schedule.drawing(),
        schedule.units(Consistency.STRONG, 100),
        {queued.number: queued.message for queued in messages},
    )
    routing = route_edges(place(shown), shown.drawing.edges)
    assert any(found.channel is not None and len(found.gutters) == 2 for found in routing.routes)
    scene = lay_out(shown)
    assert any(len(line.points) == 6 for line in scene.lines)


def test_tracks_are_shared_only_by_lines_that_never_meet() -> None:
    tracks = Tracks()
    keys = [(number, EdgeKind.CONCURRENCY) for number in range(3)]
    for key, stretch in zip(keys, ((0, 4), (4, 6), (5, 9)), strict=True):
        tracks.use(key, *stretch)
    assigned = tracks.assign()
    assert assigned[keys[0]] != assigned[keys[1]] != assigned[keys[2]]
    assert assigned[keys[0]] == assigned[keys[2]]


def svg_texts(content: bytes) -> list[str]:
    found = ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()) for element in found]


def test_svg_keeps_texts_as_texts_of_nine_points_or_more() -> None:
    content = render(lay_out(CASES[0]), "svg").decode()
    root = ElementTree.fromstring(content)
    texts = svg_texts(content.encode())
    assert {str(number) for number in range(1, 51)} <= set(texts)
    sizes = [
        float(size)
        for size in re.findall(r"font-size: ([\d.]+)px|font: (?:\w+ )?([\d.]+)px", content)
        for size in size
        if size
    ]
    assert len(sizes) == len(texts)
    # One unit of the view box is one point: as large as it is written.
    assert min(sizes) >= SMALLEST
    assert root.attrib["width"].endswith("pt")
    assert root.attrib["viewBox"].split()[2] == root.attrib["width"].removesuffix("pt")


def test_png_has_two_pixels_per_point_and_is_the_same_each_time() -> None:
    scene = lay_out(CASES[0])
    content = render(scene, "png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width == pytest.approx(scene.width * 2, abs=2)
    assert height == pytest.approx(scene.height * 2, abs=2)
    assert render(scene, "png") == content
    assert render(scene, "svg") == render(scene, "svg")


def test_names_of_users_are_neither_formulas_nor_too_long() -> None:
    """`$a$` would be mathematics to matplotlib, `表` is in no font it brings; both are only names."""
    odd = RelationName("crm", "public", "$a$_" + "long_" * 40 + "表")
    messages = [Queued(1, UpdateMessage("crm", 7, 7, (DataUpdate(odd, 1, 0),)))]
    scene = lay_out(picture(messages))
    (box,) = boxes_of(scene, "message")
    (name,) = [text for text in scene.texts if text.text.startswith("$a$_")]
    assert name.text.endswith("…")
    assert name.x + width_of(name.text, name.size) <= box.right
    assert any(text.startswith("$a$_") for text in svg_texts(render(scene, "svg")))
    assert render(scene, "png")
    assert fitted("short", 9, 100) == "short"
    assert fitted("表" * 3, 9, 1000) == "表" * 3


def test_boxes_are_as_wide_as_their_captions_need() -> None:
    """Rounding must not cut the very caption that the width was made for."""
    messages = [schema(1, "crm.customer", "ALTER TABLE", "crm.customer"), data(2, "crm.customer", rows=4000)]
    for held in ([], [1], [2]):
        texts = [text.text for text in lay_out(picture(messages, held=held)).texts]
        assert "ALTER TABLE + 1 row" in texts
        assert not any(text.endswith("…") for text in texts)


def test_a_picture_of_many_messages_shows_the_first_and_says_so() -> None:
    shown = picture(queue(400, 1), Consistency.COMPLETE, limit=60)
    assert len(shown.drawing.nodes) + shown.left_out == 400
    assert 60 <= len(shown.drawing.nodes) < 400
    scene = lay_out(shown)
    assert any("of 400" in text.text for text in scene.texts)
    assert len(boxes_of(scene, "message")) == len(shown.drawing.nodes)


def test_an_empty_queue_is_a_picture_too() -> None:
    scene = lay_out(picture([]))
    assert [text.text for text in scene.texts] == ["Nothing is pending"]
    assert render(scene, "svg")
