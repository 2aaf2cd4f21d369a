//! Where in a value: built on the stack while walking, written out only when something is refused.

use std::fmt;

/// Longest part of a key that is shown.
const KEY_CHARACTERS: usize = 64;

/// A place in a JSON value, e.g. `messages[2].content[0].type`.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    segment: Segment<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    /// The whole value; shown as the empty text.
    pub const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };

    /// The member `name` of the object here.
    #[must_use]
    pub const fn key(&'p self, name: &'p str) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Key(name) }
    }

    /// The item at `index` of the array here.
    #[must_use]
    pub const fn index(&'p self, index: usize) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Index(index) => write!(formatter, "[{index}]"),
            Segment::Key(name) => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                if !name.is_empty() && name.len() <= KEY_CHARACTERS && name.bytes().all(plain) {
                    let at_root = self.parent.is_none_or(|parent| matches!(parent.segment, Segment::Root));
                    return write!(formatter, "{}{name}", if at_root { "" } else { "." });
                }
                let shown: String = name.chars().take(KEY_CHARACTERS).collect();
                write!(formatter, "[{shown:?}]")
            }
        }
    }
}
