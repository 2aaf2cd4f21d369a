//! Random bytes and record ids.

use uuid::{Builder, Uuid};

use crate::StoreError;

/// An array from the system's generator.
///
/// # Errors
/// When the system gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random(error.to_string()))?;
    Ok(bytes)
}

/// A UUIDv7 of the given time.
///
/// # Errors
/// When the system gives no random bytes.
pub fn uuid_v7(now_ms: u64) -> Result<Uuid, StoreError> {
    Ok(Builder::from_unix_timestamp_millis(now_ms, &random_bytes()?).into_uuid())
}

/// A UUIDv7 behind a prefix: `aud_0192…`. Ids of one process sort by time.
///
/// # Errors
/// When the system gives no random bytes.
pub fn record_id(prefix: &str, now_ms: u64) -> Result<String, StoreError> {
    Ok(format!("{prefix}_{}", uuid_v7(now_ms)?))
}
