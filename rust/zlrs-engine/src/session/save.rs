//! To a file.

use std::path::Path;

use super::file::NewFile;
use super::header::{FIXED_BYTES, Header, NOTE_LIMIT_BYTES, SEAL_BYTES};
use super::{Identity, PIECE_BYTES, State, StateKey};
use crate::EngineError;
use crate::kv::BLOCK_TOKENS;
use crate::scheduler::Scheduler;

/// What was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Tokens whose keys and values are in the file; the others are computed again.
    pub tokens: usize,
    /// Length of the file.
    pub bytes: u64,
}

/// Writes a state: what is computed of its tokens, as far as `limit_bytes` of file hold it. O(bytes); a step of
/// the engine waits at most for a few megabytes to be copied.
pub(crate) fn save(
    scheduler: &Scheduler,
    identity: Identity,
    path: &Path,
    key: &StateKey,
    state: State<'_>,
    limit_bytes: u64,
) -> Result<Saved, EngineError> {
    let bare_bytes = (FIXED_BYTES + state.ids.len() * 4 + state.note.len() + 2 * SEAL_BYTES) as u64;
    if bare_bytes > limit_bytes || state.note.len() > NOTE_LIMIT_BYTES {
        return Err(EngineError::StateTooLarge { bytes: bare_bytes, limit_bytes });
    }
    // Held until the end: while others refer to them, nobody writes to these blocks.
    let known = scheduler.known(state.tenant, state.ids);
    let affordable = ((limit_bytes - bare_bytes) / identity.block_bytes.max(1)) as usize;
    let count = (known.tokens / BLOCK_TOKENS).min(affordable);
    let blocks = &known.blocks[..count];
    let header = Header {
        key_name: key.name(),
        tenant: state.tenant,
        identity,
        ids: state.ids.to_vec(),
        note: state.note.to_vec(),
        blocks: count,
    };
    let mut file = NewFile::create(path)?;
    let mut seal = key.seal();
    let mut put = |bytes: &[u8]| {
        seal.update(bytes);
        file.write(bytes)?;
        Ok::<_, EngineError>(seal.finalize())
    };
    let head_seal = put(&header.encode())?;
    let mut last_seal = put(head_seal.as_bytes())?;
    let piece = (PIECE_BYTES / identity.block_bytes.max(1) as usize).max(1);
    for blocks in blocks.chunks(piece) {
        last_seal = put(&scheduler.read_blocks(blocks)?)?;
    }
    file.write(last_seal.as_bytes())?;
    file.keep()?;
    Ok(Saved { tokens: count * BLOCK_TOKENS, bytes: bare_bytes + count as u64 * identity.block_bytes })
}
