//! The thread that talks to the remote store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use redis::cmd;
use zlrs_graph::Digest;

use crate::link::{Fault, Link};
use crate::remote::Shared;
use crate::wire::{News, entry_name, news_name, withdrawal_name};

/// How often news is read.
const NEWS_EVERY: Duration = Duration::from_millis(500);
/// News read at once.
const NEWS_AT_ONCE: usize = 1000;
/// Withdrawals kept in the list of news; each is beside its entry as well.
const NEWS_KEPT: usize = 65_536;
/// How long a withdrawal is remembered: longer than any entry lives.
const WITHDRAWN_MS: u64 = 31 * 86_400_000;
/// News of ours that may wait to be written; past it this machine stops serving.
const BACKLOG: usize = 10_000;

/// What was found under a key: the entry's line, and until when it was withdrawn.
pub(crate) type Found = (Option<Vec<u8>>, Option<u64>);

/// What the thread is asked.
pub(crate) enum Call {
    /// Look a key up; nothing comes back where the value there is no text of ours.
    Get { key: Digest, asked: Instant, done: Sender<Option<Found>> },
    /// Write an entry's line for so many milliseconds.
    Put { key: Digest, line: String, life_ms: u64 },
    /// Tell everybody. Answered once it is written.
    Tell { news: News, done: Sender<()> },
    /// Answered once everything before it was tried.
    Flush { done: Sender<()> },
    /// End.
    Close,
}

pub(crate) struct Worker {
    pub link: Link,
    pub prefix: String,
    pub deadline: Duration,
    pub shared: Arc<Shared>,
    /// News that is not written yet.
    pub backlog: VecDeque<(News, Option<Sender<()>>)>,
    /// The last withdrawal that was read.
    pub last_news: String,
    /// Purges that were read.
    pub purges: isize,
}

impl Worker {
    pub fn run(mut self, calls: &Receiver<Call>) {
        let mut next = Instant::now();
        loop {
            match calls.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Call::Close) | Err(RecvTimeoutError::Disconnected) => {
                    self.tell();
                    return;
                }
                Ok(call) => self.take(call),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= next {
                self.tell();
                self.hear();
                next = Instant::now() + NEWS_EVERY;
            }
        }
    }

    fn take(&mut self, call: Call) {
        match call {
            // Whoever asked is gone by now.
            Call::Get { asked, .. } if asked.elapsed() >= self.deadline => {}
            Call::Get { key, done, .. } => {
                let names = [entry_name(&self.prefix, &key), withdrawal_name(&self.prefix, &key)];
                match self.call::<(Option<Vec<u8>>, Option<u64>)>(cmd("MGET").arg(&names)) {
                    Ok(found) => drop(done.send(Some(found))),
                    Err(Fault::WrongType) => drop(done.send(None)),
                    // The sender drops here, which tells whoever waits.
                    Err(Fault::ReadOnly | Fault::Gone) => {}
                }
            }
            Call::Put { key, line, life_ms } => {
                let name = entry_name(&self.prefix, &key);
                let set = self.call::<()>(cmd("SET").arg(&name).arg(line).arg("PX").arg(life_ms.max(1)));
                if set.is_err() {
                    self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            Call::Tell { news, done } => {
                self.backlog.push_back((news, Some(done)));
                self.tell();
            }
            Call::Flush { done } => drop(done.send(())),
            Call::Close => {}
        }
    }

    /// Makes a call where the breaker lets it, and tells the breaker.
    fn call<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, Fault> {
        if !self.shared.is_closed() {
            return Err(Fault::Gone);
        }
        let began = Instant::now();
        let result = self.link.call(command);
        match &result {
            Ok(_) | Err(Fault::WrongType) => self.shared.answered(began.elapsed()),
            Err(Fault::ReadOnly | Fault::Gone) => self.shared.failed(),
        }
        result
    }

    /// Writes what waits to be told, in order, as far as it goes.
    fn tell(&mut self) {
        while let Some((news, _)) = self.backlog.front() {
            let news = news.clone();
            if self.write(&news).is_err() {
                break;
            }
            self.shared.note_told();
            if let Some((_, Some(done))) = self.backlog.pop_front() {
                let _ = done.send(());
            }
        }
        self.shared.note_backlog(self.backlog.len(), BACKLOG);
    }

    fn write(&mut self, news: &News) -> Result<(), Fault> {
        let text = news.to_text();
        match news {
            News::Withdrawn(key, at_ms) => {
                let name = withdrawal_name(&self.prefix, key);
                self.call::<()>(cmd("SET").arg(&name).arg(*at_ms).arg("PX").arg(WITHDRAWN_MS))?;
                // No machine needs it any more. One that has been written anew since comes again from upstream.
                self.call::<i64>(cmd("DEL").arg(entry_name(&self.prefix, key)))?;
                let stream = news_name(&self.prefix);
                let mut add = cmd("XADD");
                add.arg(&stream)
                    .arg("MAXLEN")
                    .arg("~")
                    .arg(NEWS_KEPT)
                    .arg("*")
                    .arg(&self.shared.origin)
                    .arg(text);
                self.call::<String>(&add).map(drop)
            }
            News::Purged(..) => {
                let list = format!("{}:purges", self.prefix);
                self.call::<i64>(cmd("RPUSH").arg(&list).arg(text)).map(drop)
            }
        }
    }

    /// Reads what other machines have told.
    fn hear(&mut self) {
        let stream = news_name(&self.prefix);
        loop {
            let mut read = cmd("XRANGE");
            read.arg(&stream).arg(format!("({}", self.last_news)).arg("+").arg("COUNT").arg(NEWS_AT_ONCE);
            let Ok(found) = self.call::<Vec<(String, Vec<String>)>>(&read) else { return };
            for (id, fields) in &found {
                self.last_news.clone_from(id);
                let [origin, text] = fields.as_slice() else { continue };
                if *origin == self.shared.origin {
                    continue;
                }
                if let Some(News::Withdrawn(key, at_ms)) = News::of_text(text) {
                    // A front that cannot write it stops serving by itself.
                    let _ = self.shared.front.tombstone(&key, at_ms, "withdrawn elsewhere");
                    self.shared.counts.heard.fetch_add(1, Ordering::Relaxed);
                }
            }
            if found.len() < NEWS_AT_ONCE {
                break;
            }
        }
        let list = format!("{}:purges", self.prefix);
        let Ok(length) = self.call::<isize>(cmd("LLEN").arg(&list)) else { return };
        if length < self.purges {
            // The server has lost it, and what was told since is in another place.
            self.purges = 0;
        }
        let Ok(found) = self.call::<Vec<String>>(cmd("LRANGE").arg(&list).arg(self.purges).arg(-1)) else {
            return;
        };
        for text in found {
            self.purges += 1;
            if let Some(News::Purged(purge, at_ms)) = News::of_text(&text) {
                self.shared.note_purge(purge, at_ms);
                // Read anew at every start: what was asked for since stays.
                let _: Result<u64, _> = self.shared.front.purge_until(purge, at_ms);
            }
        }
    }
}
