"""A log keeps its end, counts what it drops, and stays within its bounds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.core import job_log as shown_log
from webcodex.protocol import fields
from webcodex.runner import job_log

OUT, ERR = job_log.Stream.STDOUT, job_log.Stream.STDERR


@requirement("R-61")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab\né", max_size=40), max_size=20), st.integers(1, 60), st.booleans())
def test_a_tail_is_the_end_of_the_text_and_its_lines_are_counted(
    pieces: list[str], most: int, looks: bool
) -> None:
    tail = job_log.Tail(most)
    for piece in pieces:
        tail.add(piece.encode())
        if looks:
            tail.view()
    text, view = "".join(pieces), tail.view()
    kept = view.tail
    assert text.endswith(kept)
    assert len(kept.encode()) <= most
    assert view.truncated is (kept != text)
    assert view.next_line == text.count("\n") + 1
    assert view.first_retained_line == view.next_line - kept.count("\n")


@requirement("R-61")
def test_a_tail_begins_with_a_whole_line_where_one_fits() -> None:
    tail = job_log.Tail(12)
    tail.add(b"first\nsecond\nthird\n")
    assert tail.view() == shown_log.Log(tail="third\n", first_retained_line=3, next_line=4, truncated=True)
    tail.add(b"a line that is too long")
    assert tail.view() == shown_log.Log(
        tail=" is too long", first_retained_line=4, next_line=4, truncated=True
    )


@requirement("R-61")
def test_a_character_cut_in_two_by_the_pipe_is_whole_and_what_is_no_text_is_shown_as_such() -> None:
    log = job_log.Log(1000)
    euro = "€".encode()
    log.add(OUT, euro[:1])
    log.add(ERR, b"!\x00")
    log.add(OUT, euro[1:])
    log.add(OUT, b"\xff" + euro[:2])
    log.add(OUT, b"")
    assert log.view().tail == "!\ufffd€\ufffd\ufffd"
    assert (log.tail_of(OUT), log.tail_of(ERR)) == ("€\ufffd\ufffd", "!\ufffd")


@requirement("R-61")
def test_control_characters_do_not_make_a_frame_larger_than_its_bound() -> None:
    log = job_log.Log(10_000_000)
    for _ in range(8):
        log.add(OUT, b"\x1b" * 65_536)
    view = log.view()
    assert 60_000 < fields.encoded_bytes(view.tail) <= job_log.MAX_WIRE_BYTES
    assert (view.first_retained_line, view.next_line, view.truncated) == (1, 1, True)
