"""The objects of a JSON array, or of JSON values one after another, out of a stream of text: a few at a time."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Iterator, Union

LARGEST = 1 << 23  # characters of one object: more is damage
NEAR = 32  # so far from the end of what was read an error may be that the rest is missing
_BETWEEN = re.compile(r"[\s,\[\]]*")
_NEXT = re.compile(r"^[ \t]*\{", re.MULTILINE)


def objects(blocks: Iterable[str]) -> Iterator[tuple[int, Union[dict[str, Any], str]]]:
    """Each with the number of the line where it begins; a text instead says why there is none. After damage it goes
    on at the next line that begins with a brace."""
    decoder = json.JSONDecoder()
    stream, text, at, line, wanted, ended = iter(blocks), "", 0, 1, 0, False
    while True:
        if not ended and len(text) - at <= wanted:
            block = next(stream, None)
            if block is None:
                ended = True
            else:
                text, at = text[at:] + block, 0
            continue
        begin = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        line += text.count("\n", at, begin)
        at = begin
        if at == len(text):
            if ended:
                return
            wanted = 0
            continue
        try:
            found, end = decoder.raw_decode(text, at)
            problem = "" if isinstance(found, dict) else "no object"
        except (ValueError, RecursionError) as exc:
            place = getattr(exc, "pos", at)
            message = getattr(exc, "msg", "too deep")
            missing = place >= len(text) - NEAR or message.startswith("Unterminated")
            if missing and not ended and len(text) - at < LARGEST:
                wanted = 2 * (len(text) - at)  # twice as much before the next try: the work stays linear
                continue
            after = _NEXT.search(text, at + 1)
            found, end, problem = {}, after.start() if after else len(text), "no JSON"
        wanted = 0
        yield line, problem or found
        line += text.count("\n", at, end)
        at = end
