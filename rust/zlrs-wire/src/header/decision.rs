//! The value of `X-ZLRS-Decision`.

use std::fmt;

use crate::reason::Refusal;
use crate::scope::NodeKey;

/// Declares an enumeration whose variants have a name on the wire.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }
    };
}

names! {
    /// What the graph did with a request.
    DecisionKind {
        /// Answered from the graph.
        Hit = "hit",
        /// Eligible, forwarded.
        Miss = "miss",
        /// Not eligible, forwarded.
        Skipped = "skipped",
        /// Not answered to this caller, but filled in the background.
        Fill = "fill",
    }
}

names! {
    /// The claim behind a hit.
    Route {
        /// The upstream's own answer to this very request.
        Same = "same",
        /// Wordings that differ by the canonical rules only.
        Canonical = "canonical",
        /// Two forms that share answers.
        Edge = "edge",
    }
}

names! {
    /// How far a route has come for a class.
    Stage {
        /// Not used.
        Off = "off",
        /// Compared, never served.
        Shadow = "shadow",
        /// A small share is served, all of it checked.
        Canary = "canary",
        /// A growing share is served.
        Ramp = "ramp",
        /// Served.
        Full = "full",
    }
}

/// The bound on wrong answers per hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A replay of the upstream's own answer: nothing was merged.
    Replay,
    /// The upper limit of the error rate, 0 to 1.
    Rate(f64),
}

/// What goes into `X-ZLRS-Decision`. Displays as the header's value: printable ASCII only, by construction.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionValue {
    /// What was done.
    pub kind: DecisionKind,
    /// Over which route.
    pub route: Option<Route>,
    /// Which node; shown as its first 16 digits.
    pub node: Option<NodeKey>,
    /// The class's stage on that route.
    pub stage: Option<Stage>,
    /// The bound that held.
    pub bound: Option<Bound>,
    /// Trials and wrong ones behind the bound.
    pub trials: Option<(u64, u64)>,
    /// Why not, for what is no hit.
    pub refusal: Option<Refusal>,
}

impl DecisionValue {
    /// A decision with nothing but its kind.
    #[must_use]
    pub const fn new(kind: DecisionKind) -> Self {
        DecisionValue { kind, route: None, node: None, stage: None, bound: None, trials: None, refusal: None }
    }
}

impl fmt::Display for DecisionValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind.name())?;
        if let Some(route) = self.route {
            write!(formatter, ";route={}", route.name())?;
        }
        if let Some(node) = &self.node {
            write!(formatter, ";node={}", &node.hex()[..16])?;
        }
        if let Some(stage) = self.stage {
            write!(formatter, ";stage={}", stage.name())?;
        }
        match self.bound {
            Some(Bound::Replay) => formatter.write_str(";bound=replay")?,
            Some(Bound::Rate(rate)) => write!(formatter, ";bound={:.5}", rate.clamp(0.0, 1.0))?,
            None => {}
        }
        if let Some((trials, wrong)) = self.trials {
            write!(formatter, ";n={trials};s={wrong}")?;
        }
        if let Some(refusal) = &self.refusal {
            write!(formatter, ";reason={}", refusal.header_value())?;
        }
        Ok(())
    }
}
