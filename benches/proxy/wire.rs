//! The two ends of the sidecar's benchmark: an upstream that costs next to nothing, and the load. Only `std`; one
//! thread a connection. `rustc -O wire.rs`, then `wire serve`, `wire call …`, `wire load …`, `wire streams …`.

mod load;
mod options;
mod streams;
mod upstream;

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use options::Options;

const STACK_BYTES: usize = 128 * 1024;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&arguments[1..]);
    match arguments.first().map(String::as_str) {
        Some("serve") => upstream::serve(&options),
        Some("call") => load::call(&options),
        Some("load") => load::load(&options),
        Some("streams") => streams::streams(&options),
        _ => Err(io::Error::other("serve, call, load or streams")),
    }
}

fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}
