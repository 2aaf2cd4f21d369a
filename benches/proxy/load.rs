//! Calls in a closed loop.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::STACK_BYTES;
use crate::options::{Options, Target};
use crate::upstream::Head;

/// One keep-alive connection to a target.
pub struct Client {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    mark: Option<usize>,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Client {
    pub fn open(target: &Target, path: &str, extra: &str) -> io::Result<Self> {
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

    pub fn send(&mut self) -> io::Result<Head> {
        if let Some(place) = self.mark {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed) % 1_000_000;
            self.request[place..place + 6].copy_from_slice(format!("{number:06}").as_bytes());
        }
        self.reader.get_mut().write_all(&self.request)?;
        Head::read(&mut self.reader)?.ok_or_else(|| io::Error::other("closed"))
    }

    /// One call; the answer is read to its end. Returns its body.
    pub fn call(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
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
    pub fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
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
pub fn call(options: &Options) -> io::Result<()> {
    let mut body = Vec::new();
    Client::open(&options.targets[0], options.path(), "")?.call(&mut body)?;
    io::stdout().write_all(&body)
}

/// What was measured of one target.
#[derive(Default)]
pub struct Sample {
    pub nanoseconds: Vec<u64>,
    pub errors: u64,
    pub seconds: f64,
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

pub fn print(samples: BTreeMap<String, Sample>) {
    let lines: Vec<String> =
        samples.into_iter().map(|(name, mut sample)| format!("\"{name}\":{}", sample.json())).collect();
    println!("{{{}}}", lines.join(","));
}

/// Closed loop. With one connection the targets take turns call by call (`--calls`), else each is driven alone for
/// `--seconds`, one after the other.
pub fn load(options: &Options) -> io::Result<()> {
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
