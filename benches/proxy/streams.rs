//! Streams of events, each checked for its place.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::{Client, Sample, print};
use crate::options::Options;
use crate::{STACK_BYTES, nanoseconds};

/// `--connections` streams at once: per target the first event's and every event's time, and what went missing.
pub fn streams(options: &Options) -> io::Result<()> {
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
