//! Reads the part of a file before the tensor data: magic, counts, metadata, tensor descriptions.

use zlrs_kernels::TensorType;

use super::cursor::Cursor;
use super::layout;
use super::limits::{
    DEFAULT_ALIGNMENT, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_ARRAY_LEN, MAX_DIMENSIONS, MAX_KEY_BYTES,
    MAX_METADATA_ENTRIES, MAX_STRING_BYTES, MAX_TENSOR_NAME_BYTES, MAX_TENSORS,
};
use super::metadata::Metadata;
use super::read_at::ReadAt;
use super::value::{Array, Strings, Value};
use crate::ModelError;
use crate::source::TensorInfo;

const ALIGNMENT_KEY: &str = "general.alignment";
/// Bytes of the smallest key/value pair: length, one byte of key, type, one byte of value.
const MIN_ENTRY_BYTES: u64 = 14;
/// Bytes of the smallest tensor description: length, one byte of name, dimensions, type, offset.
const MIN_TENSOR_BYTES: u64 = 33;
/// Bytes of an empty array as an element: type and count.
const MIN_ARRAY_BYTES: u64 = 12;
/// Bytes of an empty string: its length.
const MIN_STRING_BYTES: u64 = 8;

/// What a file says before its tensor data, checked against the file's length.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// The key/value pairs.
    pub metadata: Metadata,
    /// The tensors, sorted by name; offsets count from the start of the file and every byte lies inside it.
    pub tensors: Vec<TensorInfo>,
    /// Where the tensor data start, in bytes from the start of the file.
    pub data_offset: u64,
    /// Length of the file in bytes when it was read.
    pub file_bytes: u64,
}

impl Header {
    /// Reads and checks a header. Time and memory are linear in its length, see
    /// [`peak_header_heap_bytes`](super::limits::peak_header_heap_bytes).
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn read(input: &dyn ReadAt) -> Result<Self, ModelError> {
        let mut cursor = Cursor::new(input)?;
        let version = read_magic(&mut cursor)?;
        let tensor_count = cursor.u64(&|| "the number of tensors".into())?;
        let entry_count = cursor.u64(&|| "the number of metadata entries".into())?;
        if tensor_count > MAX_TENSORS {
            return Err(ModelError::limit("the number of tensors", tensor_count, MAX_TENSORS));
        }
        if entry_count > MAX_METADATA_ENTRIES {
            return Err(ModelError::limit(
                "the number of metadata entries",
                entry_count,
                MAX_METADATA_ENTRIES,
            ));
        }
        let mut entries = Vec::with_capacity(cursor.plausible(entry_count, MIN_ENTRY_BYTES));
        for index in 0..entry_count {
            let key = cursor.string(MAX_KEY_BYTES, &|| format!("the key of metadata entry {index}"))?;
            let what = || format!("metadata {key:?}");
            let kind = cursor.u32(&what)?;
            let value = read_value(&mut cursor, kind, &what)?;
            entries.push((key.into_boxed_str(), value));
        }
        let metadata = Metadata::new(entries)?;
        if let Some(parts) = metadata.optional_u32("split.count")?.filter(|&parts| parts > 1) {
            let part = metadata.optional_u32("split.no")?.unwrap_or(0);
            return Err(ModelError::Split { part: u64::from(part) + 1, parts: u64::from(parts) });
        }
        let alignment = alignment(&metadata)?;
        let mut tensors = Vec::with_capacity(cursor.plausible(tensor_count, MIN_TENSOR_BYTES));
        for index in 0..tensor_count {
            tensors.push(read_tensor(&mut cursor, index)?);
        }
        let data_offset = cursor.position().next_multiple_of(u64::from(alignment));
        layout::place(&mut tensors, data_offset, alignment, cursor.file_bytes())?;
        Ok(Self { version, metadata, tensors, data_offset, file_bytes: cursor.file_bytes() })
    }

    /// The tensor of that name. O(log n).
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let index = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok()?;
        self.tensors.get(index)
    }
}

fn read_magic(cursor: &mut Cursor<'_>) -> Result<u32, ModelError> {
    let magic = cursor.bytes::<4>(&|| "the magic number".into())?;
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return Err(ModelError::ByteSwapped),
        other => {
            return Err(ModelError::NotGguf { found: other.escape_ascii().to_string(), hint: hint(*other) });
        }
    }
    let version = cursor.u32(&|| "the format version".into())?;
    match version {
        2 | 3 => Ok(version),
        // A small number in the other byte order.
        _ if (1..=0xffff).contains(&version.swap_bytes()) => Err(ModelError::ByteSwapped),
        _ => Err(ModelError::UnsupportedVersion { given: version }),
    }
}

fn hint(magic: [u8; 4]) -> &'static str {
    match &magic {
        b"vers" => " (this looks like a pointer of a large-file store, not the file itself)",
        b"<!DO" | b"<htm" | b"<HTM" => " (this looks like a web page)",
        b"lmgg" | b"tjgg" | b"fmgg" => " (this is an older format of the same family: convert it to GGUF)",
        [0x50, 0x4b, 3, 4] => " (this is a ZIP archive, as PyTorch writes them)",
        _ => "",
    }
}

fn alignment(metadata: &Metadata) -> Result<u32, ModelError> {
    let alignment = metadata.optional_u32(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        return Ok(alignment);
    }
    let expected = format!("a power of two of at most {MAX_ALIGNMENT}");
    Err(ModelError::bad_value(ALIGNMENT_KEY, alignment, expected))
}

fn read_value(cursor: &mut Cursor<'_>, kind: u32, what: &dyn Fn() -> String) -> Result<Value, ModelError> {
    Ok(match kind {
        0 => Value::U8(u8::from_le_bytes(cursor.bytes(what)?)),
        1 => Value::I8(i8::from_le_bytes(cursor.bytes(what)?)),
        2 => Value::U16(u16::from_le_bytes(cursor.bytes(what)?)),
        3 => Value::I16(i16::from_le_bytes(cursor.bytes(what)?)),
        4 => Value::U32(cursor.u32(what)?),
        5 => Value::I32(i32::from_le_bytes(cursor.bytes(what)?)),
        6 => Value::F32(f32::from_le_bytes(cursor.bytes(what)?)),
        7 => Value::Bool(truth(cursor.bytes(what)?, what)?),
        8 => Value::String(cursor.string(MAX_STRING_BYTES, what)?.into_boxed_str()),
        9 => Value::Array(read_array(cursor, 1, what)?),
        10 => Value::U64(cursor.u64(what)?),
        11 => Value::I64(i64::from_le_bytes(cursor.bytes(what)?)),
        12 => Value::F64(f64::from_le_bytes(cursor.bytes(what)?)),
        other => return Err(ModelError::malformed(format!("{} has the unknown type {other}", what()))),
    })
}

fn truth([byte]: [u8; 1], what: &dyn Fn() -> String) -> Result<bool, ModelError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(ModelError::malformed(format!("{} is a bool of value {other}", what()))),
    }
}

fn read_array(cursor: &mut Cursor<'_>, depth: usize, what: &dyn Fn() -> String) -> Result<Array, ModelError> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(ModelError::limit(
            format!("the depth of arrays in {}", what()),
            depth as u64,
            MAX_ARRAY_DEPTH as u64,
        ));
    }
    let kind = cursor.u32(what)?;
    let count = cursor.u64(what)?;
    if count > MAX_ARRAY_LEN {
        return Err(ModelError::limit(format!("the length of the array {}", what()), count, MAX_ARRAY_LEN));
    }
    Ok(match kind {
        0 => Array::U8(read_numbers(cursor, count, u8::from_le_bytes, what)?),
        1 => Array::I8(read_numbers(cursor, count, i8::from_le_bytes, what)?),
        2 => Array::U16(read_numbers(cursor, count, u16::from_le_bytes, what)?),
        3 => Array::I16(read_numbers(cursor, count, i16::from_le_bytes, what)?),
        4 => Array::U32(read_numbers(cursor, count, u32::from_le_bytes, what)?),
        5 => Array::I32(read_numbers(cursor, count, i32::from_le_bytes, what)?),
        6 => Array::F32(read_numbers(cursor, count, f32::from_le_bytes, what)?),
        7 => {
            let bytes = read_numbers(cursor, count, |byte: [u8; 1]| byte, what)?;
            Array::Bool(bytes.into_iter().map(|byte| truth(byte, what)).collect::<Result<_, _>>()?)
        }
        8 => {
            let mut strings = Strings::with_capacity(cursor.plausible(count, MIN_STRING_BYTES));
            for index in 0..count {
                let element = || format!("element {index} of {}", what());
                strings.push_with(|text| cursor.string_into(text, MAX_STRING_BYTES, &element))?;
            }
            Array::Strings(Box::new(strings))
        }
        9 => {
            let mut arrays = Vec::with_capacity(cursor.plausible(count, MIN_ARRAY_BYTES));
            for _ in 0..count {
                arrays.push(read_array(cursor, depth + 1, what)?);
            }
            Array::Nested(arrays)
        }
        10 => Array::U64(read_numbers(cursor, count, u64::from_le_bytes, what)?),
        11 => Array::I64(read_numbers(cursor, count, i64::from_le_bytes, what)?),
        12 => Array::F64(read_numbers(cursor, count, f64::from_le_bytes, what)?),
        other => {
            return Err(ModelError::malformed(format!("{} is an array of the unknown type {other}", what())));
        }
    })
}

fn read_numbers<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: u64,
    convert: impl Fn([u8; N]) -> T,
    what: &dyn Fn() -> String,
) -> Result<Vec<T>, ModelError> {
    // At most 2²⁴ elements of 8 bytes: no overflow.
    cursor.require(count * N as u64, what)?;
    let mut numbers = Vec::with_capacity(cursor.plausible(count, N as u64));
    for _ in 0..count {
        numbers.push(convert(cursor.bytes(what)?));
    }
    Ok(numbers)
}

fn read_tensor(cursor: &mut Cursor<'_>, index: u64) -> Result<TensorInfo, ModelError> {
    let name = cursor.string(MAX_TENSOR_NAME_BYTES, &|| format!("the name of tensor {index}"))?;
    let what = || format!("the description of tensor {name:?}");
    let dimensions = cursor.u32(&what)?;
    if dimensions == 0 || dimensions > MAX_DIMENSIONS {
        return Err(ModelError::malformed(format!(
            "tensor {name:?} has {dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}"
        )));
    }
    let mut cols = 0;
    let mut rows = 1_usize;
    for dimension in 0..dimensions {
        let length = cursor.u64(&what)?;
        let length = usize::try_from(length).ok().filter(|&length| length > 0).ok_or_else(|| {
            ModelError::malformed(format!("dimension {dimension} of tensor {name:?} is {length}"))
        })?;
        if dimension == 0 {
            cols = length;
        } else {
            rows = rows.checked_mul(length).ok_or_else(|| too_large(&name))?;
        }
    }
    let number = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    let Some(tensor_type) = TensorType::from_gguf(number) else {
        return Err(ModelError::UnsupportedTensorType {
            name,
            given: type_name(number),
            supported: TensorType::ALL.map(TensorType::name).join(", "),
        });
    };
    let Some(row_bytes) = tensor_type.row_bytes(cols) else {
        return Err(ModelError::malformed(format!(
            "tensor {name:?} has rows of {cols} elements, {tensor_type} needs a multiple of {}",
            tensor_type.block_len()
        )));
    };
    let bytes = row_bytes.checked_mul(rows).ok_or_else(|| too_large(&name))? as u64;
    Ok(TensorInfo { name, tensor_type, dimensions, rows, cols, row_bytes, bytes, offset })
}

fn too_large(name: &str) -> ModelError {
    ModelError::malformed(format!("the dimensions of tensor {name:?} multiply to more than 2^64"))
}

/// The customary names of storage types that exist and are not read, so that a message can name them.
fn type_name(number: u32) -> String {
    let name = match number {
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("type number {number}"),
    };
    name.to_owned()
}
