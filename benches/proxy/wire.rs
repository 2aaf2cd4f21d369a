//! The two ends of the sidecar's benchmark: an upstream that costs next to nothing, and the load. Only `std`; one
//! thread a connection. `rustc -O wire.rs`, then `wire serve`, `wire call …`, `wire load …`, `wire streams …`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STACK_BYTES: usize = 128 * 1024;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&arguments[1..]);
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(&options),
        Some("call") => call(&options),
        Some("load") => load(&options),
        Some("streams") => streams(&options),
        _ => Err(io::Error::other("serve, call, load or streams")),
    }
}

// --- options --------------------------------------------------------------------------------------------------

/// `--name value` pairs; `--target` may come several times.
struct Options {
    values: BTreeMap<String, String>,
    targets: Vec<Target>,
}

/// What is asked: `NAME=HOST:PORT=BODY_FILE`. `{N}` in the body is replaced by a number of six digits.
#[derive(Clone)]
struct Target {
    name: String,
    address: String,
    body: Vec<u8>,
    mark: Option<usize>,
}

impl Options {
    fn parse(arguments: &[String]) -> Self {
        let mut options = Self { values: BTreeMap::new(), targets: Vec::new() };
        for pair in arguments.chunks(2) {
            let name = pair[0].trim_start_matches("--").to_owned();
            let value = pair.get(1).cloned().unwrap_or_default();
            if name == "target" {
                let parts: Vec<&str> = value.splitn(3, '=').collect();
                let body = fs::read(parts[2]).expect("a body file");
                let mark = body.windows(6).position(|six| six == b"{NNNN}");
                options.targets.push(Target { name: parts[0].into(), address: parts[1].into(), body, mark });
            } else {
                options.values.insert(name, value);
            }
        }
        options
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.values.get(name).map_or(default, |text| text.parse().expect("a number"))
    }

    fn path(&self) -> &str {
        self.values.get("path").map_or("/v1/messages", String::as_str)
    }
}

fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

// --- upstream -------------------------------------------------------------------------------------------------

/// Answers every POST with the same JSON, or with paced events when the body asks for a stream.
fn serve(options: &Options) -> io::Result<()> {
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
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len())
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
    writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
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
struct Head {
    status: u32,
    length: usize,
    is_chunked: bool,
    events: u64,
    gap_us: u64,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
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

// --- load -----------------------------------------------------------------------------------------------------

/// One keep-alive connection to a target.
struct Client {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    mark: Option<usize>,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Client {
    fn open(target: &Target, path: &str, extra: &str) -> io::Result<Self> {
        // For gateways that are told their upstream by the caller.
        let more = std::env::var("BENCH_EXTRA_HEADERS").unwrap_or_default();
        let stream = TcpStream::connect(&target.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer sk-bench\r\n\
             anthropic-version: 2023-06-01\r\nContent-Length: {}\r\n{extra}{more}\r\n",
            target.address,
            target.body.len()
        );
        let mark = target.mark.map(|place| place + head.len());
        Ok(Self {
            reader: BufReader::with_capacity(64 * 1024, stream),
            request: [head.as_bytes(), &target.body].concat(),
            mark,
        })
    }

    fn send(&mut self) -> io::Result<Head> {
        if let Some(place) = self.mark {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed) % 1_000_000;
            self.request[place..place + 6].copy_from_slice(format!("{number:06}").as_bytes());
        }
        self.reader.get_mut().write_all(&self.request)?;
        Head::read(&mut self.reader)?.ok_or_else(|| io::Error::other("closed"))
    }

    /// One call; the answer is read to its end. Returns its body.
    fn call(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        let head = self.send()?;
        body.clear();
        if head.is_chunked {
            while self.chunk(body)? {}
        } else {
            body.resize(head.length, 0);
            self.reader.read_exact(body)?;
        }
        if head.status == 200 { Ok(()) } else { Err(io::Error::other(format!("status {}", head.status))) }
    }

    /// Appends the next chunk; false at the last one.
    fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + size + 2, 0);
        self.reader.read_exact(&mut body[start..])?;
        body.truncate(start + size);
        Ok(size > 0)
    }
}

/// One call to the first target; prints the body.
fn call(options: &Options) -> io::Result<()> {
    let mut body = Vec::new();
    Client::open(&options.targets[0], options.path(), "")?.call(&mut body)?;
    io::stdout().write_all(&body)
}

/// What was measured of one target.
#[derive(Default)]
struct Sample {
    nanoseconds: Vec<u64>,
    errors: u64,
    seconds: f64,
}

impl Sample {
    fn json(&mut self) -> String {
        self.nanoseconds.sort_unstable();
        let at = |share: f64| {
            let last = self.nanoseconds.len().saturating_sub(1);
            let index = ((self.nanoseconds.len() as f64 * share) as usize).min(last);
            self.nanoseconds.get(index).copied().unwrap_or(0) as f64 / 1e6
        };
        format!(
            "{{\"calls\":{},\"errors\":{},\"seconds\":{:.3},\"p50_ms\":{:.4},\"p99_ms\":{:.4}}}",
            self.nanoseconds.len(),
            self.errors,
            self.seconds,
            at(0.5),
            at(0.99)
        )
    }
}

fn print(samples: BTreeMap<String, Sample>) {
    let lines: Vec<String> =
        samples.into_iter().map(|(name, mut sample)| format!("\"{name}\":{}", sample.json())).collect();
    println!("{{{}}}", lines.join(","));
}

/// Closed loop. With one connection the targets take turns call by call (`--calls`), else each is driven alone for
/// `--seconds`, one after the other.
fn load(options: &Options) -> io::Result<()> {
    let mut samples = BTreeMap::new();
    let connections = options.number("connections", 1);
    if connections == 1 {
        let mut clients = Vec::new();
        for target in &options.targets {
            clients.push((target.name.clone(), Client::open(target, options.path(), "")?));
        }
        let mut body = Vec::new();
        for _ in 0..options.number("calls", 1000) {
            for (name, client) in &mut clients {
                let sample: &mut Sample = samples.entry(name.clone()).or_default();
                let began = Instant::now();
                match client.call(&mut body) {
                    Ok(()) => sample.nanoseconds.push(began.elapsed().as_nanos() as u64),
                    Err(_) => sample.errors += 1,
                }
            }
        }
    } else {
        for target in &options.targets {
            let seconds = options.number("seconds", 3);
            samples.insert(target.name.clone(), drive(target, options.path(), connections, seconds)?);
        }
    }
    print(samples);
    Ok(())
}

fn drive(target: &Target, path: &str, connections: u64, seconds: u64) -> io::Result<Sample> {
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let mut threads = Vec::new();
    for _ in 0..connections {
        let (target, path) = (target.clone(), path.to_owned());
        threads.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let mut sample = Sample::default();
            let mut body = Vec::new();
            let Ok(mut client) = Client::open(&target, &path, "") else {
                sample.errors += 1;
                return sample;
            };
            while Instant::now() < until {
                let began = Instant::now();
                if client.call(&mut body).is_ok() {
                    sample.nanoseconds.push(began.elapsed().as_nanos() as u64);
                } else {
                    sample.errors += 1;
                    match Client::open(&target, &path, "") {
                        Ok(again) => client = again,
                        Err(_) => return sample,
                    }
                }
            }
            sample
        })?);
    }
    let mut all = Sample::default();
    for thread in threads {
        let sample = thread.join().expect("a thread of the load");
        all.nanoseconds.extend(sample.nanoseconds);
        all.errors += sample.errors;
    }
    all.seconds = started.elapsed().as_secs_f64();
    Ok(all)
}

/// `--connections` streams at once: per target the first event's and every event's time, and what went missing.
fn streams(options: &Options) -> io::Result<()> {
    let (connections, events) = (options.number("connections", 64), options.number("events", 64));
    let gap_us = options.number("gap-us", 20_000);
    let extra = format!("x-bench-events: {events}\r\nx-bench-gap-us: {gap_us}\r\n");
    let mut samples = BTreeMap::new();
    for target in &options.targets {
        let barrier = Arc::new(Barrier::new(connections as usize));
        let mut threads = Vec::new();
        for number in 0..connections {
            let (target, path, extra, barrier) =
                (target.clone(), options.path().to_owned(), extra.clone(), barrier.clone());
            threads.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                let client = Client::open(&target, &path, &extra);
                barrier.wait();
                // Spread over half of a stream's time: as callers come, and yet all at once in the other half.
                thread::sleep(Duration::from_micros(gap_us * events / 2 * number / connections));
                client.and_then(|client| stream(client, events)).unwrap_or_default()
            })?);
        }
        let (mut first, mut each) = (Sample::default(), Sample::default());
        for thread in threads {
            let delays = thread.join().expect("a thread of the load");
            if delays.len() as u64 != events + 1 {
                each.errors += 1;
            }
            first.nanoseconds.extend(delays.first());
            each.nanoseconds.extend(delays.iter().skip(1));
        }
        samples.insert(format!("{} first", target.name), first);
        samples.insert(format!("{} event", target.name), each);
    }
    print(samples);
    Ok(())
}

/// Time to the first event, then of each event from its writing to its reading; fewer when one is lost or misplaced.
fn stream(mut client: Client, events: u64) -> io::Result<Vec<u64>> {
    let mut delays = Vec::new();
    let began = Instant::now();
    if client.send()?.status != 200 {
        return Err(io::Error::other("status"));
    }
    let (mut body, mut done) = (Vec::new(), 0);
    let mut expected = 0;
    loop {
        let more = client.chunk(&mut body)?;
        let now = nanoseconds();
        if expected == 0 && more {
            delays.push(began.elapsed().as_nanos() as u64);
        }
        while let Some(end) = body[done..].windows(2).position(|two| two == b"\n\n") {
            let text = String::from_utf8_lossy(&body[done..done + end]).into_owned();
            done += end + 2;
            let mut parts = text.split('@').nth(1).unwrap_or_default().split(' ');
            let index: Option<u64> = parts.next().and_then(|word| word.parse().ok());
            let sent: Option<u64> = parts.next().and_then(|word| word.parse().ok());
            if index != Some(expected) {
                return Ok(delays);
            }
            expected += 1;
            delays.push(now.saturating_sub(sent.unwrap_or(now)));
        }
        if !more {
            return Ok(if expected == events { delays } else { Vec::new() });
        }
    }
}
