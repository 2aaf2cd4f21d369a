//! Files of saved states: written beside their place and moved there, read as what anybody may have put there.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, Mode, OFlags};

use crate::EngineError;

/// A file that is not there for others until it is complete; removed when it is dropped before.
pub(super) struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl NewFile {
    /// Begins a file that only its owner can read.
    pub fn create(path: &Path) -> Result<Self, EngineError> {
        let unique = getrandom::u64()
            .map_err(|_| failed("drawing random bytes for", path, io::Error::other("no source")))?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{unique:016x}.new"));
        let temporary = PathBuf::from(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR);
        let file = opened.map_err(|error| failed("making the state file", path, error.into()))?.into();
        Ok(Self { file, temporary, path: path.to_owned(), kept: false })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.file.write_all(bytes).map_err(|error| failed("writing the state file", &self.path, error))
    }

    /// Makes it durable and puts it in its place, in one step for all who look.
    pub fn keep(mut self) -> Result<(), EngineError> {
        let moved = self.file.sync_all().and_then(|()| std::fs::rename(&self.temporary, &self.path));
        moved.map_err(|error| failed("storing the state file", &self.path, error))?;
        self.kept = true;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = File::open(parent.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        folder.map_err(|error| failed("storing the state file", &self.path, error))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // What is left of a failed write is of no use; a failure to remove it costs only its space.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Opens a regular file and tells its length: no link is followed, no pipe waited for.
pub(super) fn open(path: &Path) -> Result<(File, u64), EngineError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle: OwnedFd = fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NOENT => EngineError::StateMissing { path: path.to_owned() },
        rustix::io::Errno::LOOP => corrupt(path, "is a link"),
        other => failed("opening the saved state", path, other.into()),
    })?;
    let status =
        fs::fstat(handle.as_fd()).map_err(|error| failed("opening the saved state", path, error.into()))?;
    if !fs::FileType::from_raw_mode(status.st_mode).is_file() {
        return Err(corrupt(path, "is not a file"));
    }
    Ok((handle.into(), u64::try_from(status.st_size).unwrap_or(0)))
}

pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> EngineError {
    EngineError::StateCorrupt { path: path.to_owned(), what: what.into() }
}

pub(super) fn unusable(path: &Path, what: impl Into<String>) -> EngineError {
    EngineError::StateUnusable { path: path.to_owned(), what: what.into() }
}

pub(super) fn failed(what: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::StateFile { what, path: path.to_owned(), source }
}
