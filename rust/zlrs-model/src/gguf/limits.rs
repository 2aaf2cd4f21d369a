//! What zlrs accepts from a file. Every limit is far above what published models need and low enough that a
//! hostile file cannot make the reader use much memory or time. Format: the GGUF specification,
//! versions 2 and 3.

/// Bytes before the tensor data: counts, metadata and tensor descriptions together.
pub const MAX_HEADER_BYTES: u64 = 256 << 20;
/// Key/value pairs.
pub const MAX_METADATA_ENTRIES: u64 = 65_536;
/// Bytes of a key (the format's own limit).
pub const MAX_KEY_BYTES: u64 = 65_535;
/// Bytes of a string value or an element of an array of strings.
pub const MAX_STRING_BYTES: u64 = 16 << 20;
/// Elements of one array.
pub const MAX_ARRAY_LEN: u64 = 16 << 20;
/// Arrays in arrays: an array of numbers has depth 1.
pub const MAX_ARRAY_DEPTH: usize = 4;
/// Tensors.
pub const MAX_TENSORS: u64 = 65_536;
/// Bytes of a tensor's name.
pub const MAX_TENSOR_NAME_BYTES: u64 = 255;
/// Dimensions of a tensor (the format's own limit).
pub const MAX_DIMENSIONS: u32 = 4;
/// Alignment of the tensor data, in bytes; also a power of two.
pub const MAX_ALIGNMENT: u32 = 1 << 16;
/// Alignment when the metadata name none.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Heap bytes that reading a header of `header_bytes` may use at most at any time, see the `mutated_headers`
/// test: every structure is paid for by bytes that are really in the file (an empty nested array takes 12
/// bytes there and 32 here; a growing vector is held twice while it moves).
pub const fn peak_header_heap_bytes(header_bytes: u64) -> u64 {
    (256 << 10) + 12 * header_bytes
}
