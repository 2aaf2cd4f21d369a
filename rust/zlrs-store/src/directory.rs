//! The graph's directory: which files are in it and who may touch them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// A directory that only its owner writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Uses the directory, or makes it with mode 0700.
    ///
    /// # Errors
    /// [`StoreError::Directory`] when it cannot be made or is none, [`StoreError::DirectoryOpen`] when group or
    /// others may write into it, because they could then put files of their own in place of ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: io::Error| StoreError::Directory { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mode = fs::metadata(path).map_err(failed)?.mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(StoreError::DirectoryOpen { path: path.to_owned(), mode });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.path.join("graph.sqlite3")
    }

    /// The evidence of the routes that need a proof. A file of its own: it outlives the answers it was gathered from.
    pub fn evidence(&self) -> PathBuf {
        self.path.join("evidence.sqlite3")
    }

    /// The key file.
    pub fn key(&self) -> PathBuf {
        self.path.join("graph.key")
    }

    /// The folder of the audit chains, made with mode 0700 by whoever writes there first.
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }
}
