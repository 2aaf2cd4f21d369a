//! The upstream, and the reading of heads.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::{STACK_BYTES, nanoseconds};

/// Answers every POST with the same JSON, or with paced events when the body asks for a stream.
pub fn serve(options: &Options) -> io::Result<()> {
    let answer = Arc::new(fs::read(&options.values["answer"])?);
    let listener = TcpListener::bind(("127.0.0.1", options.number("port", 0) as u16))?;
    println!("{}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let (stream, answer) = (stream?, answer.clone());
        thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let _ = connection(stream, &answer);
        })?;
    }
    Ok(())
}

fn connection(stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let whole = [
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        )
        .into_bytes(),
        answer.to_vec(),
    ]
    .concat();
    while let Some(head) = Head::read(&mut reader)? {
        let mut body = vec![0; head.length];
        reader.read_exact(&mut body)?;
        if head.events == 0 {
            writer.write_all(&whole)?;
        } else {
            events(&mut writer, &head)?;
        }
    }
    Ok(())
}

fn events(writer: &mut TcpStream, head: &Head) -> io::Result<()> {
    writer.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    let began = Instant::now();
    for index in 0..head.events {
        let due = Duration::from_micros(head.gap_us * index);
        if let Some(rest) = due.checked_sub(began.elapsed()) {
            thread::sleep(rest);
        }
        let event = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\
             \"text_delta\",\"text\":\"@{index} {}@\"}}}}\n\n",
            nanoseconds()
        );
        writer.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
    }
    writer.write_all(b"0\r\n\r\n")
}

/// The part of a request's or answer's head that is of interest.
#[derive(Default)]
pub struct Head {
    pub status: u32,
    pub length: usize,
    pub is_chunked: bool,
    events: u64,
    gap_us: u64,
}

impl Head {
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Self::default();
        let mut line = String::new();
        let mut is_first = true;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let text = line.trim_end();
            if text.is_empty() {
                return Ok(Some(head));
            }
            if is_first {
                head.status = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
                is_first = false;
            }
            let Some((name, value)) = text.split_once(':') else { continue };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse().unwrap_or(0),
                "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
                "x-bench-events" => head.events = value.parse().unwrap_or(0),
                "x-bench-gap-us" => head.gap_us = value.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}
