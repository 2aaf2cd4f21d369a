//! Only the plainest whole requests are read.

use zlrs_wire::Protocol;
use zlrs_wire::http::{PlainPost, whole_answer};

const PLAIN: &str = "POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost:80\r\ncontent-type: application/json\r\n\
                     X-Api-Key:  k \r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn a_plain_request_is_read() {
    let request = PlainPost::read(PLAIN.as_bytes()).expect("plain");
    assert_eq!(request.protocol, Protocol::Messages);
    assert_eq!((request.path, request.query), ("/v1/messages", "beta=true"));
    assert_eq!((request.host, request.body), (b"localhost:80".as_slice(), b"{}".as_slice()));
    let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [b"Host".as_slice(), b"content-type", b"X-Api-Key", b"Content-Length"]);
    assert_eq!(request.headers[2].1, b"k");
}

#[test]
fn no_prefix_and_nothing_longer_is_a_request() {
    for end in 0..PLAIN.len() {
        assert_eq!(PlainPost::read(&PLAIN.as_bytes()[..end]), None, "{end} bytes");
    }
    assert_eq!(PlainPost::read(format!("{PLAIN}P").as_bytes()), None);
}

#[test]
fn every_other_form_is_left_to_a_complete_parser() {
    let changes = [
        ("POST", "PUT"),
        ("POST ", "POST  "),
        ("POST ", " POST "),
        ("/v1/messages", "/v1/messages/batches"),
        ("/v1/messages", "/V1/messages"),
        ("/v1/messages", "/x/v1/messages"),
        ("/v1/messages", "http://h/v1/messages"),
        ("?beta", "?a b"),
        ("?beta", "#beta"),
        ("?beta", "?\u{e9}"),
        ("HTTP/1.1", "HTTP/1.0"),
        ("HTTP/1.1", "http/1.1"),
        ("HTTP/1.1", "HTTP/1.1 "),
        ("HTTP/1.1\r\n", "HTTP/1.1\n"),
        ("HTTP/1.1\r\n", "HTTP/1.1\r\r\n"),
        ("HTTP/1.1\r\n", "HTTP/1.1\rX"),
        ("Host: ", "Host: \u{c}"),
        ("localhost:80\r\n", "localhost:80\u{c}\r\n"),
        ("HTTP/1.1\r\n", "HTTP/1.1\r\n\r\n"),
        ("localhost:80\r\n", "localhost:80\n"),
        ("localhost:80\r\n", "localhost:80\r\n folded\r\n"),
        ("localhost:80\r\n", "localhost:80\r\nHost: other\r\n"),
        ("Host: localhost:80\r\n", ""),
        ("Host:", "Host :"),
        ("Host:", "Ho\u{0}st:"),
        ("Host:", ":"),
        ("  k ", "\u{1}k"),
        ("  k ", "\u{e9}"),
        ("X-Api-Key:  k ", "no colon"),
        ("application/json", "text/plain"),
        ("application/json", "application/json; charset=utf-16"),
        ("Content-Length: 2", "Content-Length: 3"),
        ("Content-Length: 2", "Content-Length: 1"),
        ("Content-Length: 2", "Content-Length: +2"),
        ("Content-Length: 2", "Content-Length: 0x2"),
        ("Content-Length: 2", "Content-Length: 0000000002"),
        ("Content-Length: 2", "Content-Length: 2\r\nContent-Length: 2"),
        ("Content-Length: 2", "Content-Length: 2\r\nTransfer-Encoding: chunked"),
        ("Content-Length: 2", "Content-Length: 2\r\ntransfer-encoding: identity"),
        ("Content-Length: 2", "Content-Length: 2\r\nConnection: close"),
        ("Content-Length: 2", "Content-Length: 2\r\nConnection: keep-alive, X-Api-Key"),
        ("Content-Length: 2", "Content-Length: 2\r\nUpgrade: h2c"),
        ("Content-Length: 2", "Content-Length: 2\r\nExpect: 100-continue"),
        ("Content-Length: 2", "Content-Length: 2\r\nContent-Encoding: gzip"),
        ("Content-Length: 2", "Content-Length: 2\r\nVia: 1.1 zlrs"),
        ("Content-Length: 2", "Content-Length: 2\r\nX-ZLRS-No-Graph: true"),
        ("Content-Length: 2", "Content-Length: 2\r\nCache-Only: true"),
    ];
    for (from, to) in changes {
        let changed = PLAIN.replacen(from, to, 1);
        assert_ne!(changed, PLAIN);
        assert_eq!(PlainPost::read(changed.as_bytes()), None, "{changed:?}");
    }
    let singles = ["Content-Location", "Content-Range", "ETag", "Max-Forwards", "Server", "User-Agent"];
    for name in singles {
        let with = |lines: String| PLAIN.replacen("Content-Length", &format!("{lines}Content-Length"), 1);
        let once = with(format!("{name}: a\r\n"));
        assert!(PlainPost::read(once.as_bytes()).is_some(), "{once:?}");
        let twice = with(format!("{name}: a\r\nx: y\r\n{}: a\r\n", name.to_lowercase()));
        assert_eq!(PlainPost::read(twice.as_bytes()), None, "{twice:?}");
    }
    let many = format!("Content-Length: 2\r\n{}", "a: b\r\n".repeat(64));
    assert_eq!(PlainPost::read(PLAIN.replacen("Content-Length: 2\r\n", &many, 1).as_bytes()), None);
    let long = format!("X-Api-Key: {}", "k".repeat(9000));
    assert_eq!(PlainPost::read(PLAIN.replacen("X-Api-Key:  k ", &long, 1).as_bytes()), None);
}

#[test]
fn an_answer_is_head_and_pieces_and_has_no_other_bytes() {
    let pieces = [b"ab".to_vec(), b"c".to_vec()];
    let sent = whole_answer(&[("Content-Type", "application/json")], "now", &pieces).expect("plain");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\nDate: now\r\n\r\n";
    assert_eq!(sent, [head.as_bytes(), b"abc"].concat());
    assert_eq!(whole_answer(&[("a", "b\r\nc: d")], "now", &pieces), None);
}
