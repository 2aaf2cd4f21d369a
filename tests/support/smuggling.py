"""Requests that two servers could read in two ways, by families, each with what must become of it."""

from __future__ import annotations

from typing import NamedTuple

REFUSED, ONE = "refused", "one"
"""No request reaches the upstream; or one does, with the body that was meant."""

HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: victim\r\n\r\n"
LINE = b"POST /v1/x HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n"
CONTROLS = [bytes([code]) for code in (*range(0x20), 0x7F)]
END = b"0\r\n\r\n"


class Payload(NamedTuple):
    """Bytes of one connection, and what must become of them."""

    family: str
    name: str
    sent: bytes
    outcome: str
    body: bytes = b""
    """What the upstream reads, where one request reaches it."""


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def codings() -> list[Payload]:
    """Values and spellings of `Transfer-Encoding`, alone and beside a length."""
    values = [
        b"xchunked", b"chunkedx", b"chunke", b'"chunked"', b"'chunked'", b"chunked;q=1", b"chunked; x=y",
        b"chunked, identity", b"chunked,gzip", b"gzip, chunked, gzip", b"chunked, chunked", b"identity, gzip",
        b"\x0bchunked", b"\x0cchunked", b"chunked\x0b", b"chunked\x00", b"\x00chunked", b"chunk\x00ed",
        b"c\thunked", b"\tchunked\t", b"chun ked", b"chunked chunked", b"chunked\xa0", b"\xa0chunked",
        b"\xc2\xa0chunked",
        "ｃhunked".encode(), b"chunked\x7f", b"=chunked", b"(chunked)", b"chunked/1", b"compress", b"deflate",
        b"br", b"zstd", b"trailers", b"none", b"0", b"true", b"close", b"chunked:", b":chunked", b"chunked\\",
    ]  # fmt: skip
    found = []
    for value in values:
        head = LINE + HOST + b"Transfer-Encoding: " + value + b"\r\n"
        found.append(Payload("coding", f"{value!r} alone", head + b"\r\n" + END + HIDDEN, REFUSED))
        found.append(
            Payload("coding", f"{value!r} with length", head + LENGTH % 5 + b"\r\n" + END + HIDDEN, REFUSED)
        )
        found.append(
            Payload("coding", f"length with {value!r}",
                    LINE + HOST + LENGTH % 5 + b"Transfer-Encoding: " + value + b"\r\n\r\n" + END + HIDDEN,
                    REFUSED)
        )  # fmt: skip
    for good in (b"chunked", b"Chunked", b"CHUNKED", b" chunked ", b"   chunked"):
        head = LINE + HOST + b"Transfer-Encoding:" + good + b"\r\n"
        found.append(
            Payload("coding", f"{good!r} is chunked", head + b"\r\n" + _chunk(HIDDEN) + END, ONE, HIDDEN)
        )
        found.append(
            Payload("coding", f"{good!r} and a length", head + LENGTH % 5 + b"\r\n" + END + HIDDEN, REFUSED)
        )
    return found


def coding_names() -> list[Payload]:
    """Spellings of the name `Transfer-Encoding` with a byte where none belongs."""
    found = []
    for byte in [*CONTROLS, b" ", b"\xa0", b"\xff", b"(", b'"', b"/", b"@"]:
        for place, name in {
            "before": byte + b"Transfer-Encoding",
            "inside": b"Transfer" + byte + b"-Encoding",
            "behind": b"Transfer-Encoding" + byte,
        }.items():
            if byte in {b"\r", b"\n"}:
                continue
            sent = LINE + HOST + LENGTH % 5 + name + b": chunked\r\n\r\n" + END + HIDDEN
            found.append(Payload("name", f"{byte!r} {place}", sent, REFUSED))
    for name in (b"Transfer_Encoding", b"X-Transfer-Encoding", b"Transfer-Encodings", b"Content_Length"):
        sent = LINE + HOST + LENGTH % len(HIDDEN) + name + b": chunked\r\n\r\n" + HIDDEN
        found.append(Payload("name", f"{name.decode()} is another header", sent, ONE, HIDDEN))
    return found


def lengths() -> list[Payload]:
    """Values of `Content-Length`, once and twice."""
    values = [
        b"+5", b"-5", b"-0", b"0x5", b"5.0", b"5e0", b"5,5", b"5, 6", b"5;5", b"5 5", b"5_0", b"05x", b"five",
        b'"5"', b"(5)", b"\x005", b"5\x00", b"\x0b5", b"5\x0b", b"\xa05", "٥".encode(), "５".encode(),
        "²".encode(), b"9" * 30, b"18446744073709551616", b"18446744073709551621", b"4294967301x", b"0b101",
        b"0o5", b"1_0", b"\x7f5", b"NaN", b"inf", b"", b"*", b"5/1", b"5%", b"%35", b"5\t5",
    ]  # fmt: skip
    found = [
        Payload("length", repr(value),
                LINE + HOST + b"Content-Length: " + value + b"\r\n\r\nhello" + HIDDEN, REFUSED)
        for value in values
    ]  # fmt: skip
    for one, two in (
        (b"5", b"0"),
        (b"0", b"5"),
        (b"5", b"5"),
        (b"5", b"05"),
        (b"5", b"+5"),
        (b"5", b""),
        (b"", b"5"),
    ):
        sent = (
            LINE
            + HOST
            + b"Content-Length: "
            + one
            + b"\r\nContent-Length: "
            + two
            + b"\r\n\r\nhello"
            + HIDDEN
        )
        found.append(Payload("length", f"{one!r} and {two!r}", sent, REFUSED))
    for name in (b"content-length", b"CONTENT-LENGTH", b"cOnTeNt-LeNgTh"):
        sent = LINE + HOST + name + b": %d\r\n\r\n" % len(HIDDEN) + HIDDEN
        found.append(Payload("length", f"{name.decode()} is the length", sent, ONE, HIDDEN))
    return found


def chunks() -> list[Payload]:
    """Sizes, ends and extensions of chunks."""
    head = LINE + HOST + CHUNKED + b"\r\n"
    sizes = [
        b"0x5", b"+5", b"-5", b" 5", b"\t5", b"5_0", b"g", b"", b"5.0", b"5,5", b"\x005", b"5\x00", b"\xa05",
        "٥".encode(), "５".encode(), b"f" * 17, b"1" + b"0" * 16, b"8000000000000005", b"5\x0b", b'"5"',
        b"5h", b"5\\", b"%35", b"0b101",
    ]  # fmt: skip
    found = [
        Payload("chunk", f"size {size!r}", head + size + b"\r\nhello\r\n" + END + HIDDEN, REFUSED)
        for size in sizes
    ]
    ends = {
        "line feed after the size": b"5\nhello\r\n",
        "carriage return after the size": b"5\rhello\r\n",
        "two returns after the size": b"5\r\r\nhello\r\n",
        "line feed after the data": b"5\r\nhello\n",
        "nothing after the data": b"5\r\nhello",
        "a letter after the data": b"5\r\nhelloX\r\n",
        "more data than its size": b"3\r\nhello\r\n",
        "less data than its size": b"6\r\nhello\r\n",
        "a line feed in an extension": b"5;a\nb\r\nhello\r\n",
        "a return in an extension": b"5;a\rb\r\nhello\r\n",
        "a zero in an extension": b"5;a\x00b\r\nhello\r\n",
    }
    found += [Payload("chunk", name, head + one + END + HIDDEN, REFUSED) for name, one in ends.items()]
    for name, size in {"zeros before": b"00%x", "upper case": b"%X", "an extension": b"%x;a=b"}.items():
        sent = head + size % len(HIDDEN) + b"\r\n" + HIDDEN + b"\r\n" + END
        found.append(Payload("chunk", f"{name} is a size", sent, ONE, HIDDEN))
    # It belongs to nobody and ends here.
    sent = head + b"5;" + b"a" * 20_000 + b"\r\nhello\r\n" + END
    found.append(Payload("chunk", "a long extension is dropped", sent, ONE, b"hello"))
    for name, end in {
        "line feed": b"0\n\n", "no last line": b"0\r\n", "a letter": b"0\r\nX", "a space": b"0\r\n \r\n",
        "minus zero": b"-0\r\n\r\n",
    }.items():  # fmt: skip
        found.append(Payload("chunk", f"the end: {name}", head + b"5\r\nhello\r\n" + end, REFUSED))
    return found


def trailers() -> list[Payload]:
    """Fields behind the last chunk: they never become headers."""
    head = LINE + HOST + CHUNKED + b"\r\n" + b"5\r\nhello\r\n0\r\n"
    good = [b"X-Api-Key: victim", b"Host: evil", b"X-Plain: a", b"Authorization: Bearer victim"]
    found = [Payload("trailer", line.decode(), head + line + b"\r\n\r\n", ONE, b"hello") for line in good]
    bad = [
        b"Content-Length: 5",
        b"Transfer-Encoding: gzip",
        b"X : a",
        b"no colon",
        b"X\x00: a",
        b"X: a\x00",
        b": a",
        b"X: a\n b",
    ]
    return found + [
        Payload("trailer", repr(line), head + line + b"\r\n\r\n" + HIDDEN, REFUSED) for line in bad
    ]


def controls() -> list[Payload]:
    """Every control byte in every part of a head."""
    found = []
    for byte in CONTROLS:
        name = f"{byte[0]:#04x}"
        line_end = byte in {b"\r", b"\n"}
        parts = {
            "method": b"PO" + byte + b"ST /v1/x HTTP/1.1\r\n" + HOST + b"\r\n",
            "path": b"POST /v1/" + byte + b"x HTTP/1.1\r\n" + HOST + b"\r\n",
            "version": b"POST /v1/x HTTP/1." + byte + b"1\r\n" + HOST + b"\r\n",
            "host": LINE + b"Host: local" + byte + b"host\r\n\r\n",
            "header name": LINE + HOST + b"X-A" + byte + b"b: c\r\n\r\n",
        }
        found += [
            Payload("control", f"{name} in {part}", sent + HIDDEN, REFUSED) for part, sent in parts.items()
        ]
        value = LINE + HOST + b"X-A: b" + byte + b"c\r\n" + LENGTH % 0 + b"\r\n"
        if byte == b"\t":
            found.append(Payload("control", f"{name} in value is space", value, ONE))
        elif not line_end:
            found.append(Payload("control", f"{name} in value", value + HIDDEN, REFUSED))
    return found


def lines() -> list[Payload]:
    """Request lines, folds and ends of lines."""
    rest = HOST + b"\r\n"
    bad = {
        "space before": b" POST /v1/x HTTP/1.1\r\n",
        "space behind": b"POST /v1/x HTTP/1.1 \r\n",
        "tabs": b"POST\t/v1/x\tHTTP/1.1\r\n",
        "no version": b"POST /v1/x\r\n",
        "a second version": b"POST /v1/x HTTP/1.1 HTTP/1.1\r\n",
        "version 1.10": b"POST /v1/x HTTP/1.10\r\n",
        "version 1": b"POST /v1/x HTTP/1\r\n",
        "version 2": b"POST /v1/x HTTP/2.0\r\n",
        "version 0.9": b"POST /v1/x HTTP/0.9\r\n",
        "version +1": b"POST /v1/x HTTP/+1.1\r\n",
        "digits of another script": "POST /v1/x HTTP/١.١\r\n".encode(),
        "another protocol": b"POST /v1/x XTTP/1.1\r\n",
        "lower case": b"POST /v1/x http/1.1\r\n",
        "no path": b"POST HTTP/1.1\r\n",
        "absolute": b"POST http://evil/v1/x HTTP/1.1\r\n",
        "absolute, ours": b"POST http://localhost/v1/x HTTP/1.1\r\n",
        "authority": b"CONNECT evil:443 HTTP/1.1\r\n",
        "asterisk": b"OPTIONS * HTTP/1.1\r\n",
        "backslash host": b"POST \\\\evil\\x HTTP/1.1\r\n",
        "at": b"POST @evil/x HTTP/1.1\r\n",
        "fragment": b"POST /v1/x#y HTTP/1.1\r\n",
        "not ASCII": "POST /v1/ü HTTP/1.1\r\n".encode(),
        "HTTP/2 preface": b"PRI * HTTP/2.0\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
    }
    found = [Payload("line", name, line + rest + HIDDEN, REFUSED) for name, line in bad.items()]
    # Read leniently, and written anew: one space each.
    sent = b"POST  /v1/x HTTP/1.1\r\n" + HOST + LENGTH % len(HIDDEN) + b"\r\n" + HIDDEN
    found.append(Payload("line", "two spaces", sent, ONE, HIDDEN))
    folds = {
        "space": b"X-A: b\r\n c\r\n",
        "tab": b"X-A: b\r\n\tc\r\n",
        "first header": b" X-A: b\r\n",
        "coding": b"Transfer-Encoding:\r\n chunked\r\n",
        "length": b"Content-Length:\r\n 5\r\n",
        "host": b"X: y\r\n Host: evil\r\n",
        "empty": b"X-A: b\r\n \r\n",
    }
    found += [
        Payload("fold", name, LINE + HOST + one + b"\r\n" + HIDDEN, REFUSED) for name, one in folds.items()
    ]
    ends = {
        "no colon": b"X-A b\r\n",
        "no name": b": b\r\n",
        "only a colon": b":\r\n",
        "two returns": b"X-A: b\r\r\n",
        "a return inside": b"X-A: b\rContent-Length: 5\r\n",
        "space before the colon": b"X-A : b\r\n",
        "name of another script": "Ｘ: b\r\n".encode(),
        "brackets": b"X(A): b\r\n",
        "quotes": b'"X": b\r\n',
    }
    return found + [
        Payload("header", name, LINE + HOST + one + b"\r\n" + HIDDEN, REFUSED) for name, one in ends.items()
    ]


def hosts() -> list[Payload]:
    """Names in `Host`, and how often."""
    names = [
        b"evil.example", b"localhost.evil.example", b"evil#localhost", b"localhost@evil", b"evil/localhost",
        b"localhost/../evil", b"localhost evil", b"localhost,evil", b"http://localhost", b"", b"localhost:x",
        b"localhost:99999999", b"[::1", b"[::1]evil", b"0x7f.1.evil", b"169.254.169.254", b"10.0.0.1",
        b"metadata.google.internal", b"2130706433", b"127.1", "ⓛocalhost".encode(), b"localhost%00",
        b"localhost\\evil", b"*", b"localhost;evil",
    ]  # fmt: skip
    found = [
        Payload("host", repr(name), LINE + b"Host: " + name + b"\r\n\r\n" + HIDDEN, REFUSED) for name in names
    ]
    twice = {
        "twice": HOST + HOST,
        "twice, other": HOST + b"Host: evil\r\n",
        "none": b"",
        "other first": b"host: evil\r\n" + HOST,
    }
    return found + [
        Payload("host", name, LINE + one + b"\r\n" + HIDDEN, REFUSED) for name, one in twice.items()
    ]


def hops() -> list[Payload]:
    """Headers of one hop, methods and expectations: one request goes on, with the framing that was meant."""
    extra = {
        "Connection names the length": b"Connection: content-length\r\n",
        "Connection names the key": b"Connection: x-api-key, authorization\r\n",
        "Connection names the host": b"Connection: host\r\n",
        "Connection is odd": b"Connection: ,,, \t,close\r\n",
        "Proxy-Connection": b"Proxy-Connection: keep-alive\r\n",
        "Keep-Alive": b"Keep-Alive: timeout=5\r\n",
        "TE": b"TE: trailers, chunked\r\n",
        "Trailer": b"Trailer: X-Api-Key\r\n",
        "another override of the method": b"X-HTTP-Method-Override: DELETE\r\n",
        "another name of the path": b"X-Original-URL: /smuggled\r\nX-Rewrite-URL: /smuggled\r\n",
        "another name of the host": b"X-Forwarded-Host: evil\r\nForwarded: host=evil\r\n",
        "another name of the length": b"X-Content-Length: 0\r\nContent_Length: 0\r\n",
    }
    found = [
        Payload("hop", name, LINE + HOST + LENGTH % len(HIDDEN) + line + b"\r\n" + HIDDEN, ONE, HIDDEN)
        for name, line in extra.items()
    ]
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"PUT", b"PATCH", b"PROPFIND"):
        sent = method + b" /v1/x HTTP/1.1\r\n" + HOST + LENGTH % len(HIDDEN) + b"\r\n" + HIDDEN
        found.append(Payload("hop", f"{method.decode()} with a body", sent, ONE, HIDDEN))
    for value in (b"100-continues", b"200-ok", b"100-continue, x", b"x"):
        sent = LINE + HOST + LENGTH % 5 + b"Expect: " + value + b"\r\n\r\nhello" + HIDDEN
        found.append(Payload("hop", f"Expect: {value.decode()}", sent, REFUSED))
    return found


PAYLOADS = [
    *codings(), *coding_names(), *lengths(), *chunks(), *trailers(), *controls(), *lines(), *hosts(), *hops(),
]  # fmt: skip
