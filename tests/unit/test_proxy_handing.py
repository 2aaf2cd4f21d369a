"""Pieces of a stream are handed on in the order and the very call that bring them."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from zlrs_proxy.handing import hand_on


def _stream() -> StreamReader:
    return StreamReader(mock.Mock(spec=BaseProtocol), 1 << 16, loop=asyncio.get_running_loop())


def _chunk(content: StreamReader, piece: bytes) -> None:
    content.begin_http_chunk_receiving()
    content.feed_data(piece)
    content.end_http_chunk_receiving()


async def test_every_piece_is_handed_on_before_the_call_that_brings_it_returns() -> None:
    content = _stream()
    _chunk(content, b"before")
    got: list[bytes] = []
    handing = asyncio.ensure_future(hand_on(content, lambda piece: not got.append(piece)))
    await asyncio.sleep(0)
    assert got == [b"before"]
    for number in range(100):
        _chunk(content, b"%d" % number)
        assert got[-1] == b"%d" % number
    content.feed_data(b"half a chunk")
    assert got[-1] == b"half a chunk"
    content.feed_eof()
    await asyncio.wait_for(handing, 5)
    assert len(got) == 102
    assert content.at_eof()
    assert await content.readany() == b""


async def test_what_comes_after_a_refusal_stays_in_the_stream() -> None:
    content = _stream()
    got: list[bytes] = []

    def take(piece: bytes) -> bool:
        got.append(piece)
        return len(got) < 2

    handing = asyncio.ensure_future(hand_on(content, take))
    await asyncio.sleep(0)
    for piece in (b"a", b"b", b"c", b"d"):
        _chunk(content, piece)
    await asyncio.wait_for(handing, 5)
    assert got == [b"a", b"b"]
    assert await content.readany() == b"cd"


async def test_an_error_is_left_for_the_next_read() -> None:
    content = _stream()
    handing = asyncio.ensure_future(hand_on(content, lambda _piece: True))
    await asyncio.sleep(0)
    content.set_exception(ConnectionResetError("lost"))
    await asyncio.wait_for(handing, 5)
    with pytest.raises(ConnectionResetError):
        await content.readany()


async def test_a_reader_that_is_cancelled_leaves_the_stream_to_others() -> None:
    content = _stream()
    got: list[bytes] = []
    handing = asyncio.ensure_future(hand_on(content, lambda piece: not got.append(piece)))
    await asyncio.sleep(0)
    handing.cancel()
    await asyncio.wait({handing})
    content.feed_data(b"later")
    assert got == []
    assert await content.readany() == b"later"


class _Resuming(StreamReader):
    """As if its connection was paused: a read resumes it, which feeds the stream before it returns."""

    ends = False

    def read_nowait(self, n: int = -1) -> bytes:
        piece = super().read_nowait(n)
        _chunk(self, b"second")
        if self.ends:
            self.feed_eof()
        return piece


@pytest.mark.parametrize("ends", [False, True])
async def test_what_the_first_read_itself_brings_is_left_to_the_next_read(*, ends: bool) -> None:
    content = _Resuming(mock.Mock(spec=BaseProtocol), 1 << 16, loop=asyncio.get_running_loop())
    content.ends = ends
    _chunk(content, b"first")
    got: list[bytes] = []
    await asyncio.wait_for(hand_on(content, lambda piece: not got.append(piece)), 5)
    assert got == [b"first"]
    assert await content.readany() == b"second"
    assert content.at_eof() is ends
