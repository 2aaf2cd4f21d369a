//! Random bytes and record ids.

use uuid::Builder;

use crate::StoreError;

/// Fills an array from the system's generator.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random(error.to_string()))?;
    Ok(bytes)
}

/// A UUIDv7 of the given time behind a prefix: `aud_0192…`. Ids of one process sort by time.
///
/// # Errors
/// When the system gives no random bytes.
pub fn record_id(prefix: &str, now_ms: u64) -> Result<String, StoreError> {
    let uuid = Builder::from_unix_timestamp_millis(now_ms, &random_bytes()?).into_uuid();
    Ok(format!("{prefix}_{uuid}"))
}
