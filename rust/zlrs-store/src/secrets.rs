//! The per-install secret and the signing key, in one file that only its owner can read.
//!
//! They protect stored answers against corruption and against whoever can write the database but not this file.
//! They do not protect against the owner of the directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use zlrs_graph::Digest;

use crate::StoreError;
use crate::random::random_bytes;

const HEADER: &str = "zlrs graph key 1";
/// A key file is a few hundred bytes; anything longer is not one.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// The secret that keys every hash, and the key that signs entries and checkpoints.
pub struct Secrets {
    master: [u8; 32],
    signing: SigningKey,
}

impl Secrets {
    /// New random secrets that live in memory only.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn ephemeral() -> Result<Self, StoreError> {
        Ok(Self { master: random_bytes()?, signing: SigningKey::from_bytes(&random_bytes()?) })
    }

    /// Opens the key file, or makes it (mode 0600). Two processes that start at once end with the same file:
    /// a complete temporary file is linked to the final name, which fails for the second, who then reads the first's.
    ///
    /// # Errors
    /// [`StoreError::KeyFile`] when the file is damaged, readable by others or cannot be made.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |what: String| StoreError::KeyFile { path: path.to_owned(), what };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::create(path).map_err(|error| failed(format!("cannot create it: {error}")))?;
            }
            Err(error) => return Err(failed(error.to_string())),
            Ok(_) => {}
        }
        let metadata = fs::symlink_metadata(path).map_err(|error| failed(error.to_string()))?;
        if !metadata.is_file() || metadata.len() > KEY_FILE_BYTES_MAX {
            return Err(failed("it is not a key file; move it away".to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(failed(format!(
                "other users may read it (mode {:o}); run `chmod 600` on it, or remove it and the database if it may have leaked",
                metadata.mode() & 0o777
            )));
        }
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text)
            .ok_or_else(|| failed("it is damaged; restore it, or remove it and the database".to_owned()))
    }

    fn create(path: &Path) -> io::Result<()> {
        let secrets = Self::ephemeral().map_err(|error| io::Error::other(error.to_string()))?;
        let unique: [u8; 8] = random_bytes().map_err(|error| io::Error::other(error.to_string()))?;
        let temporary = path.with_extension(format!("{:016x}.new", u64::from_le_bytes(unique)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(secrets.render().as_bytes()).and_then(|()| file.sync_all());
        let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
        fs::remove_file(&temporary)?;
        linked?;
        path.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
    }

    fn render(&self) -> String {
        let secret = Digest(self.master).to_hex();
        let signing = Digest(self.signing.to_bytes()).to_hex();
        let body = format!("{HEADER}\nsecret {secret}\nsigning {signing}\n");
        format!("{body}check {}\n", Digest::of(body.as_bytes()))
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, check) = text.split_at(text.rfind("check ")?);
        if check.strip_prefix("check ")?.trim_end() != Digest::of(body.as_bytes()).to_hex() {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let master = Digest::from_hex(lines.next()?.strip_prefix("secret ")?)?.0;
        let signing = Digest::from_hex(lines.next()?.strip_prefix("signing ")?)?.0;
        Some(Self { master, signing: SigningKey::from_bytes(&signing) })
    }

    /// The key for one purpose, derived from the secret. Keys of different purposes tell nothing of each other.
    pub fn derived(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(&format!("zlrs graph 1 {purpose}"), &self.master)
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }

    /// The public half.
    pub fn verifier(&self) -> Verifier {
        Verifier(self.signing.verifying_key())
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Secrets({})", self.verifier().key_id())
    }
}

/// Checks signatures of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verifier(VerifyingKey);

impl Verifier {
    /// Reads a public key of 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        VerifyingKey::from_bytes(&Digest::from_hex(text)?.0).ok().map(Self)
    }

    /// The public key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        Digest(self.0.to_bytes()).to_hex()
    }

    /// The first 16 hexadecimal digits of the public key's BLAKE3: names the key in rows and records.
    pub fn key_id(&self) -> String {
        Digest::of(self.0.as_bytes()).short()
    }

    /// Whether every signature is this key's over its message: some twice as fast as one by one. Where one is not, this
    /// does not say which.
    pub fn all_hold(&self, messages: &[&[u8]], signatures: &[[u8; 64]]) -> bool {
        let signatures: Vec<Signature> = signatures.iter().map(Signature::from_bytes).collect();
        ed25519_dalek::verify_batch(messages, &signatures, &vec![self.0; signatures.len()]).is_ok()
    }

    /// Whether `signature` is this key's over `message`, by the strict rules (no malleable or small-order forms).
    pub fn holds(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}
