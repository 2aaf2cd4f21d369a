//! Which instruction set the kernels use: chosen once, at run time.

use crate::KernelError;

/// An instruction set with kernels of its own. All give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain scalar code: the specification, on every processor.
    Naive,
    /// AVX2 with FMA and F16C (x86-64 processors from 2013 on).
    Avx2,
    /// AVX-512 (F, BW, VL) with VNNI for the products, AVX2 for the rest (x86-64 processors from 2019 on).
    Avx512,
}

impl Isa {
    /// All of them, the plainest first.
    pub const ALL: [Self; 3] = [Self::Naive, Self::Avx2, Self::Avx512];

    /// The set named by the environment variable `ZLRS_ISA` (`naive`, `avx2` or `avx512`), else the best this
    /// processor has.
    ///
    /// # Errors
    /// [`KernelError::UnknownIsa`] for another name, [`KernelError::IsaUnavailable`] if the processor lacks
    /// the named set.
    pub fn select() -> Result<Self, KernelError> {
        match std::env::var_os("ZLRS_ISA") {
            None => Ok(Self::detect()),
            Some(value) => Self::from_name(&value.to_string_lossy())?.checked(),
        }
    }

    /// The best set this processor has.
    pub fn detect() -> Self {
        let best_first = [Self::Avx512, Self::Avx2];
        best_first.into_iter().find(|isa| isa.is_available()).unwrap_or(Self::Naive)
    }

    /// The set of that name.
    ///
    /// # Errors
    /// [`KernelError::UnknownIsa`] for any other name.
    pub fn from_name(name: &str) -> Result<Self, KernelError> {
        match name {
            "naive" => Ok(Self::Naive),
            "avx2" => Ok(Self::Avx2),
            "avx512" => Ok(Self::Avx512),
            other => Err(KernelError::UnknownIsa { given: other.to_owned() }),
        }
    }

    /// The name that `ZLRS_ISA` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this processor can run the set. Cheap: the answer is cached by the standard library.
    pub fn is_available(self) -> bool {
        match self {
            Self::Naive => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The set itself if this processor can run it.
    ///
    /// # Errors
    /// [`KernelError::IsaUnavailable`] otherwise.
    pub fn checked(self) -> Result<Self, KernelError> {
        if self.is_available() { Ok(self) } else { Err(KernelError::IsaUnavailable { isa: self }) }
    }

    /// Whether AVX2 code is wanted and may run: it serves both vector sets. Every safe function asks this (or holds a value that could
    /// only be made after asking) before it enters AVX2 code: the enum itself proves nothing, anyone can
    /// write `Isa::Avx2`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "asked only where AVX2 exists"))]
    pub(crate) fn runs_avx2(self) -> bool {
        self != Self::Naive && self.is_available()
    }

    /// Whether AVX-512 code is wanted and may run.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "asked only where AVX-512 exists"))]
    pub(crate) fn runs_avx512(self) -> bool {
        self == Self::Avx512 && self.is_available()
    }
}
