//! GGUF files, versions 2 and 3, little-endian. Nothing is mapped into memory: a file that shrinks or changes
//! while it is used gives an error.

mod cursor;
mod header;
mod layout;
pub mod limits;
mod metadata;
mod read_at;
mod value;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

pub use self::header::Header;
pub use self::metadata::Metadata;
pub use self::read_at::ReadAt;
pub use self::value::{Array, Strings, Value};
use crate::ModelError;
use crate::source::{TensorInfo, TensorSource};

/// Bytes read at a time when a file is summed.
const SUM_BUFFER_BYTES: u64 = 1 << 20;

/// An open model file whose header has been read and checked.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    handle: std::fs::File,
    header: Header,
    sha256: OnceLock<String>,
}

impl File {
    /// Opens a file and reads its header. The tensor data are not touched.
    ///
    /// # Errors
    /// [`ModelError::InFile`] with the path and the reason.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let in_file =
            |source: ModelError| ModelError::InFile { path: path.to_owned(), source: Box::new(source) };
        let io = |action| move |source| ModelError::Io { action, source };
        let handle = std::fs::File::open(path).map_err(io("open the file")).map_err(in_file)?;
        let kind = handle.metadata().map_err(io("inspect the file")).map_err(in_file)?.file_type();
        if !kind.is_file() {
            let what = if kind.is_dir() { "it is a directory" } else { "it is not a regular file" };
            let source = io::Error::new(io::ErrorKind::InvalidInput, what);
            return Err(in_file(ModelError::Io { action: "open the file", source }));
        }
        let header = Header::read(&handle).map_err(in_file)?;
        Ok(Self { path: path.to_owned(), handle, header, sha256: OnceLock::new() })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its key/value pairs.
    pub fn metadata(&self) -> &Metadata {
        &self.header.metadata
    }

    /// Its tensors, sorted by name.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    /// Version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.header.version
    }

    /// Length in bytes when it was opened.
    pub fn bytes(&self) -> u64 {
        self.header.file_bytes
    }

    /// SHA-256 of the whole file in lower-case hex. Computed at the first call (the file is read once, about
    /// a second per gigabyte from memory) and kept.
    ///
    /// # Errors
    /// [`ModelError::InFile`] if reading fails or the file has changed its length.
    pub fn sha256(&self) -> Result<&str, ModelError> {
        if let Some(sum) = self.sha256.get() {
            return Ok(sum);
        }
        let sum = self.sum().map_err(|source| self.in_file(source))?;
        Ok(self.sha256.get_or_init(|| sum))
    }

    /// Fails if the file's length is no longer what it was when it was opened.
    ///
    /// # Errors
    /// [`ModelError::InFile`].
    pub fn check_unchanged(&self) -> Result<(), ModelError> {
        self.compare_length().map_err(|source| self.in_file(source))
    }

    fn compare_length(&self) -> Result<(), ModelError> {
        let now = ReadAt::len(&self.handle)
            .map_err(|source| ModelError::Io { action: "read the length", source })?;
        if now == self.bytes() {
            return Ok(());
        }
        Err(ModelError::Changed { what: format!("its length went from {} to {now} bytes", self.bytes()) })
    }

    fn sum(&self) -> Result<String, ModelError> {
        self.compare_length()?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; SUM_BUFFER_BYTES as usize];
        let mut offset = 0;
        while offset < self.bytes() {
            let length = SUM_BUFFER_BYTES.min(self.bytes() - offset) as usize;
            let window = &mut buffer[..length];
            self.handle
                .read_exact_at(window, offset)
                .map_err(|source| ModelError::Io { action: "read the file", source })?;
            hasher.update(&*window);
            offset += length as u64;
        }
        self.compare_length()?;
        let mut sum = String::with_capacity(64);
        for byte in hasher.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(sum, "{byte:02x}");
        }
        Ok(sum)
    }

    fn in_file(&self, source: ModelError) -> ModelError {
        ModelError::InFile { path: self.path.clone(), source: Box::new(source) }
    }
}

impl TensorSource for File {
    fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.tensor(name)
    }

    fn all(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    fn read(&self, tensor: &TensorInfo, byte_offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = byte_offset.checked_add(out.len() as u64).is_some_and(|end| end <= tensor.bytes);
        if !inside {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{} bytes at {byte_offset} lie outside tensor {:?} of {} bytes",
                    out.len(),
                    tensor.name,
                    tensor.bytes
                ),
            ));
        }
        self.handle.read_exact_at(out, tensor.offset + byte_offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file became shorter while tensor {:?} was read", tensor.name),
            ),
            _ => error,
        })
    }
}
