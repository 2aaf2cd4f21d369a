//! Fingerprints of short asks: 64 small integers whose cosine says how likely two wordings ask the same.
//!
//! A fingerprint *proposes* where an answer to another wording may be looked for. It never decides that the answer is
//! right, so that an attacker who finds a colliding wording has found a comparison, not an answer.
//!
//! The network reads the bytes of the prepared text ([`prepared`]) with two convolutions, takes the largest and the
//! mean of every channel, and projects that to 64 dimensions: the architecture of X. Zhang, J. Zhao, Y. LeCun,
//! "Character-level Convolutional Networks for Text Classification" (2015), made small, trained with the contrastive
//! loss over pairs in a batch of K. Sohn (2016). [`Network`] runs it in integers, so that one text has one fingerprint
//! on every machine; [`naive`] is the same arithmetic written plainly.
//!
//! [`train`] makes the weights. It fixes every order of sums and uses no functions of the system's mathematics library:
//! the same data and seed give the same file, byte for byte, on every machine and with any number of threads.

mod fingerprint;
pub mod naive;
mod nearest;
mod network;
mod prepare;
mod scan;
pub mod train;
mod weights;

pub use fingerprint::{DIMENSIONS, Fingerprint};
pub use nearest::{Forms, Near};
pub use network::Network;
pub use prepare::{PREPARED_BYTES_MAX, prepared};
pub use weights::{FileError, Weights};
