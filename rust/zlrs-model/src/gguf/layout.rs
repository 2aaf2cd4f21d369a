//! Checks where tensors lie: aligned, inside the file, none over another, no name twice.

use crate::ModelError;
use crate::source::TensorInfo;

/// Turns offsets relative to the tensor data into offsets in the file and sorts the tensors by name.
/// O(n log n).
pub(super) fn place(
    tensors: &mut [TensorInfo],
    data_offset: u64,
    alignment: u32,
    file_bytes: u64,
) -> Result<(), ModelError> {
    for tensor in tensors.iter_mut() {
        let name = &tensor.name;
        if !tensor.offset.is_multiple_of(u64::from(alignment)) {
            return Err(ModelError::malformed(format!(
                "tensor {name:?} lies at offset {}, which is not a multiple of the alignment {alignment}",
                tensor.offset
            )));
        }
        let start = data_offset.checked_add(tensor.offset);
        let end = start.and_then(|start| start.checked_add(tensor.bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= file_bytes => tensor.offset = start,
            _ => {
                return Err(ModelError::Truncated {
                    what: format!("the data of tensor {name:?}"),
                    offset: start.unwrap_or(u64::MAX),
                    needed: tensor.bytes,
                    file_bytes,
                });
            }
        }
    }
    tensors.sort_unstable_by_key(|tensor| tensor.offset);
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset) {
        return Err(ModelError::malformed(format!(
            "the data of tensors {:?} and {:?} overlap",
            pair[0].name, pair[1].name
        )));
    }
    tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    match tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(ModelError::malformed(format!("tensor {:?} appears more than once", pair[0].name))),
        None => Ok(()),
    }
}
