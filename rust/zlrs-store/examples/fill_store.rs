//! Fills a graph's database with entries that nothing asks for: `fill_store DIRECTORY COUNT`. For measuring at size.

use std::path::Path;
use std::time::Duration;

use zlrs_graph::{Digest, Route};
use zlrs_store::{Directory, Draft, Entry, Limits, Notices, Secrets, SqliteStore, Store, StoreError};

/// Bytes of an answer.
const BODY_BYTES: usize = 300;
const CREATED_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, count] = arguments.as_slice() else {
        return Err("usage: fill_store DIRECTORY COUNT".into());
    };
    let directory = Directory::open(Path::new(directory))?;
    let secrets = Secrets::open(&directory.key())?;
    let limits = Limits { max_entries: 100_000_000, max_bytes: 1 << 40, ..Limits::default() };
    let store = SqliteStore::open(&directory.database(), &secrets, limits, Notices::default(), CREATED_MS)?;
    for number in 0..count.parse::<u64>()? {
        let digest = |name: &str| Digest::of(format!("{name} {number}").as_bytes());
        let draft = Draft {
            key: digest("key"),
            scope: digest("scope"),
            node: digest("node"),
            tenant: digest("tenant"),
            route: Route::Same,
            created_ms: CREATED_MS,
            expires_ms: CREATED_MS + DAY_MS,
            body: vec![b' '; BODY_BYTES],
        };
        let entry = Entry::seal(draft, &secrets);
        while let Err(StoreError::QueueFull) = store.put(entry.clone(), Duration::ZERO) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // Full queues were tried again: what the flush complains of was stored.
    let _ = store.flush();
    store.close();
    Ok(())
}
