//! The nearest forms: every one of them is looked at, 64 bytes each, in the order of memory.

use crate::{DIMENSIONS, Fingerprint, scan};

/// Rows looked at between two looks at the results.
const CHUNK: usize = 256;

/// Forms of one scope with what the caller wants to know of each. At most `capacity`; then the oldest gives way.
#[derive(Clone, Debug)]
pub struct Forms<T> {
    rows: Vec<[i8; DIMENSIONS]>,
    /// One over the length of each row.
    inverse: Vec<f32>,
    values: Vec<T>,
    capacity: usize,
    /// Where the next one goes when it is full.
    next: usize,
}

/// A form that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near<'f, T> {
    /// The cosine to what was looked for.
    pub cosine: f32,
    /// What was kept with it.
    pub value: &'f T,
}

impl<T> Forms<T> {
    /// An empty one.
    pub const fn new(capacity: usize) -> Self {
        Self { rows: Vec::new(), inverse: Vec::new(), values: Vec::new(), capacity, next: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Everything that was kept.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Adds a form; returns what gave way to it: the oldest one, or the form itself where its fingerprint is zero, which
    /// is near to nothing.
    pub fn add(&mut self, fingerprint: &Fingerprint, value: T) -> Option<T> {
        let length = f64::from(fingerprint.dot(fingerprint)).sqrt();
        if length <= 0.0 || self.capacity == 0 {
            return Some(value);
        }
        let inverse = (1.0 / length) as f32;
        if self.rows.len() < self.capacity {
            self.rows.push(fingerprint.0);
            self.inverse.push(inverse);
            self.values.push(value);
            None
        } else {
            let at = self.next % self.capacity;
            self.rows[at] = fingerprint.0;
            self.inverse[at] = inverse;
            self.next = at + 1;
            Some(std::mem::replace(&mut self.values[at], value))
        }
    }

    /// At most `count` forms with a cosine of at least `least`, the nearest first, equals in the order they came.
    /// Linear in the number of forms.
    pub fn nearest(&self, fingerprint: &Fingerprint, least: f32, count: usize) -> Vec<Near<'_, T>> {
        let length = f64::from(fingerprint.dot(fingerprint)).sqrt();
        if length <= 0.0 || count == 0 {
            return Vec::new();
        }
        let own = (1.0 / length) as f32;
        let wide = scan::is_wide();
        let mut found: Vec<(f32, usize)> = Vec::with_capacity(count + 1);
        let mut dots = [0_i32; CHUNK];
        for (chunk, rows) in self.rows.chunks(CHUNK).enumerate() {
            scan::dots(wide, &fingerprint.0, rows, &mut dots);
            let base = chunk * CHUNK;
            for (at, (dot, inverse)) in dots[..rows.len()].iter().zip(&self.inverse[base..]).enumerate() {
                let cosine = *dot as f32 * own * inverse;
                let is_near = cosine >= least && (found.len() < count || found[count - 1].0 < cosine);
                if is_near {
                    let place = found.partition_point(|known| known.0 >= cosine);
                    found.insert(place, (cosine, base + at));
                    found.truncate(count);
                }
            }
        }
        found.into_iter().map(|(cosine, at)| Near { cosine, value: &self.values[at] }).collect()
    }
}
