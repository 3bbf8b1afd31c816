"""Answers `read_files`: several bounded ranges, each item whole or not at all (R-51)."""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

from webcodex.protocol import bounds, fields
from webcodex.runner import deadline, failures, file_range, own_files, path_form, paths, projects

FILES_AT_ONCE: Final = 4
_MAX_ITEMS: Final = 8
_MAX_LIMIT: Final = 2000
_ITEMS_ROOM_BYTES: Final = bounds.MAX_REPLY_BYTES - 512
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One asked range."""

    path: str
    wanted: file_range.Wanted


def parse(body: fields.JsonObject) -> tuple[Item, ...]:
    """Returns the items a request body asks for.

    Raises:
        RequestFailed: `invalid_arguments`.

    """
    source = fields.Fields(body, "body")
    try:
        numbered = source.boolean_or_none("with_line_numbers") or False
        items = source.each("items", lambda item: _item(item, numbered=numbered), most=_MAX_ITEMS)
    except fields.Malformed as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
    if not items:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS)
    return items


def _item(source: fields.Fields, *, numbered: bool) -> Item:
    expected = source.text_or_none("expected_sha256", most=64)
    return Item(
        path=source.text("path", most=fields.MAX_INTEGER, least=0),
        wanted=file_range.Wanted(
            start_line=source.integer_or("start_line", 1, least=1, most=fields.MAX_INTEGER),
            limit=source.integer_or("limit", _MAX_LIMIT, least=1, most=_MAX_LIMIT),
            expected_sha256=None if expected is None else source.matching("expected_sha256", _SHA256),
            with_line_numbers=numbered,
        ),
    )


async def read_files(
    project: projects.Project,
    own: own_files.OwnFiles,
    body: fields.JsonObject,
    *,
    pool: Executor,
    until: deadline.Deadline,
) -> dict[str, Any]:
    """Returns the reply of R-51 without its `project`.

    An item that is not read by then fails with `timeout`; the others stand.

    Raises:
        RequestFailed: the body is wrong, or the Project's root was replaced.

    """
    items = parse(body)
    loop = asyncio.get_running_loop()

    reads = [
        loop.run_in_executor(pool, outcome, project, own, item, index, until)
        for index, item in enumerate(items)
    ]
    try:
        done, late = await asyncio.wait(reads, timeout=until.remaining_s())
    finally:
        for read in reads:
            read.cancel()
    for error in [read.exception() for read in done]:
        if error is not None:
            raise error
    outcomes = [
        _failure(index, _shown(item.path), {"reason": "timeout"}) if read in late else read.result()
        for index, (item, read) in enumerate(zip(items, reads, strict=True))
    ]
    return _reply(outcomes)


def outcome(
    project: projects.Project,
    own: own_files.OwnFiles,
    item: Item,
    index: int,
    until: deadline.Deadline,
) -> dict[str, Any]:
    """Returns one item of the reply, whether it succeeded or failed; blocks while it reads.

    Raises:
        RequestFailed: the Project's root was replaced.

    """
    shown = _shown(item.path)
    if not until.remaining_s():
        return _failure(index, shown, {"reason": "timeout"})
    try:
        with paths.open_file(project, item.path, own) as file:
            found = file_range.read(file.descriptor, file.status.st_size, item.wanted, until)
            return _fitting(_success(index, file.path, item.wanted, found))
    except path_form.PathRefused as error:
        return _failure(index, shown, {"reason": error.reason})
    except file_range.RangeRefused as error:
        mismatch = {} if error.sha256 is None else {"sha256": error.sha256}
        return _failure(index, shown, {"reason": error.reason, **mismatch})
    except OSError:
        return _failure(index, shown, {"reason": "io_error"})
    except paths.RootReplaced as error:
        raise failures.RequestFailed(failures.ROOT_REPLACED) from error


def _success(index: int, path: str, wanted: file_range.Wanted, found: file_range.Range) -> dict[str, Any]:
    end_line = wanted.start_line + found.returned_lines - 1 if found.returned_lines else None
    has_more = end_line is not None and end_line < found.total_lines
    output = {
        "text": found.text,
        "format": "numbered" if wanted.with_line_numbers else "plain",
        "path": path,
        "sha256": found.sha256,
        "start_line": wanted.start_line,
        "limit": wanted.limit,
        "total_lines": found.total_lines,
        "returned_lines": found.returned_lines,
        "end_line": end_line,
        "has_more": has_more,
        "next_start_line": end_line + 1 if end_line is not None and has_more else None,
    }
    return {"index": index, "path": path, "success": True, "error": None, "output": output}


def _failure(index: int, path: str | None, error: dict[str, str]) -> dict[str, Any]:
    return {"index": index, "path": path, "success": False, "error": error, "output": None}


def _shown(path: str) -> str | None:
    """Returns a refused path as replies may name it: project-relative, else not at all (R-12)."""
    try:
        return "/".join(path_form.parse(path))
    except path_form.PathRefused:
        return None


def _fitting(outcome: dict[str, Any]) -> dict[str, Any]:
    """Returns the outcome, or its refusal where escapes make it larger than any reply may be."""
    if fields.encoded_bytes(outcome) <= _ITEMS_ROOM_BYTES:
        return outcome
    return _failure(outcome["index"], outcome["path"], {"reason": "range_too_large"})


def _reply(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kept: list[dict[str, Any]] = []
    room_bytes = _ITEMS_ROOM_BYTES
    for outcome in outcomes:
        room_bytes -= fields.encoded_bytes(outcome) + 1
        if room_bytes < 0 and kept:
            break
        kept.append(outcome)
    succeeded = sum(outcome["success"] for outcome in kept)
    return {
        "requested_count": len(outcomes),
        "returned_count": len(kept),
        "succeeded_count": succeeded,
        "failed_count": len(kept) - succeeded,
        "items": kept,
        "output_truncated": len(kept) < len(outcomes),
        "next_index": len(kept) if len(kept) < len(outcomes) else None,
    }
