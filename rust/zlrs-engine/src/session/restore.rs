//! From a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::file::{corrupt, failed, open, unusable};
use super::header::{FIXED_BYTES, Header, SEAL_BYTES};
use super::{Identity, PIECE_BYTES, StateKey};
use crate::EngineError;
use crate::kv::Block;
use crate::prefix::{Pin, Tenant};
use crate::scheduler::Scheduler;

/// How a saved state fits the loaded model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The same weights and arithmetic: keys and values are taken over.
    Weights,
    /// Other weights over the same tokens: the tokens have to be computed again.
    Tokenizer,
    /// Nothing of it is of use here but its note.
    Nothing,
}

/// A state that passed all checks.
#[derive(Debug)]
pub struct Restored {
    /// How it fits.
    pub fit: Fit,
    /// The conversation's tokens, for the tokenizer it was made with.
    pub ids: Vec<u32>,
    /// What was kept beside them.
    pub note: Vec<u8>,
    /// Keeps what was taken over; holds 0 tokens where nothing was.
    pub pin: Pin,
}

/// Reads a state and takes over its keys and values where they fit. What is in the file is believed only after
/// its seal has been checked, the head's before anything else is read. O(bytes).
pub(crate) fn restore(
    scheduler: &Scheduler,
    identity: Identity,
    path: &Path,
    key: &StateKey,
    tenant: Tenant,
    limit_bytes: u64,
) -> Result<Restored, EngineError> {
    let (file, length) = open(path)?;
    let mut sealed = Sealed { file, path, seal: key.seal() };
    let header = sealed.header(&key.name(), length, limit_bytes)?;
    if header.tenant != tenant {
        return Err(EngineError::StateForbidden { path: path.to_owned() });
    }
    if length > limit_bytes {
        return Err(too_long(path, length, limit_bytes));
    }
    let fit = if header.identity == identity {
        Fit::Weights
    } else if header.identity.tokenizer == identity.tokenizer {
        Fit::Tokenizer
    } else {
        Fit::Nothing
    };
    let pin = if fit == Fit::Weights {
        scheduler.remember(tenant, &header.ids, &sealed.blocks(scheduler, &header)?)
    } else {
        scheduler.remember(tenant, &[], &[])
    };
    Ok(Restored { fit, ids: header.ids, note: header.note, pin })
}

/// A file that is read and sealed at once.
struct Sealed<'a> {
    file: File,
    path: &'a Path,
    seal: blake3::Hasher,
}

impl Sealed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), EngineError> {
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => corrupt(self.path, "ends too early"),
            _ => failed("reading the saved state", self.path, error),
        })
    }

    /// Compares the seal of what was read so far with the one that follows. Takes the same time for all.
    fn check(&mut self) -> Result<(), EngineError> {
        let expected = self.seal.finalize();
        let mut given = [0; SEAL_BYTES];
        self.read(&mut given)?;
        if expected != given {
            return Err(corrupt(
                self.path,
                "has a seal that does not fit: it was changed, or made with another key",
            ));
        }
        self.seal.update(&given);
        Ok(())
    }

    fn header(&mut self, key_name: &[u8; 32], length: u64, limit_bytes: u64) -> Result<Header, EngineError> {
        let mut head = vec![0; FIXED_BYTES];
        self.read(&mut head)?;
        if let Some(what) = Header::stranger(&head, key_name) {
            return Err(unusable(self.path, what));
        }
        let lengths = Header::lengths(&head).map_err(|what| corrupt(self.path, what))?;
        if lengths.file != length {
            return Err(corrupt(self.path, format!("has {length} bytes and should have {}", lengths.file)));
        }
        if lengths.head as u64 > limit_bytes {
            return Err(too_long(self.path, length, limit_bytes));
        }
        head.resize(lengths.head - SEAL_BYTES, 0);
        self.read(&mut head[FIXED_BYTES..])?;
        self.seal.update(&head);
        self.check()?;
        Header::decode(&head).map_err(|what| corrupt(self.path, what))
    }

    /// Brings the blocks into the KV memory, where nobody can use them before they are returned: all of them, or
    /// none when memory is short. They are freed when the check at the end fails.
    fn blocks(&mut self, scheduler: &Scheduler, header: &Header) -> Result<Vec<Block>, EngineError> {
        let block_bytes = header.identity.block_bytes as usize;
        let mut blocks = Vec::new();
        while blocks.len() < header.blocks {
            let count = (PIECE_BYTES / block_bytes.max(1)).clamp(1, header.blocks - blocks.len());
            let mut bytes = vec![0; count * block_bytes];
            self.read(&mut bytes)?;
            self.seal.update(&bytes);
            // Memory is looked for once, and for all that is to come.
            let to_come = header.blocks - blocks.len() - count;
            match scheduler.write_blocks(bytes, to_come)? {
                Some(more) => blocks.extend(more),
                None => return Ok(Vec::new()),
            }
        }
        self.check()?;
        Ok(blocks)
    }
}

fn too_long(path: &Path, length: u64, limit_bytes: u64) -> EngineError {
    unusable(path, format!("has {length} bytes, the limit is {limit_bytes}"))
}
