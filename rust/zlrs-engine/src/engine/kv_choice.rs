//! How keys and values are stored, as it is asked for and as it is told.

use crate::EngineError;
use crate::backend::Backend;
use crate::governor::{Governor, PrecisionPlanner, Report, Settings};
use crate::plan::{KvPrecision, Planner};

use super::{DeviceChoice, Engine};

/// How keys and values of aggressive requests' complete blocks are stored. Exact requests keep f16.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KvChoice {
    /// All alike. f16 is exact.
    Fixed(KvPrecision),
    /// By the load of the device's memory and its temperature.
    Governed(Settings),
}

impl Default for KvChoice {
    fn default() -> Self {
        Self::Fixed(KvPrecision::F16)
    }
}

impl KvChoice {
    /// Whether answers are those of f16.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }

    /// The name of the setting.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed(precision) => precision.name(),
            Self::Governed(_) => "governed",
        }
    }

    /// What it becomes where the processor computes, which stores f16 only.
    pub(super) fn on_processor(self, device: DeviceChoice<'_>) -> Result<Self, EngineError> {
        if !self.is_exact() && matches!(device, DeviceChoice::Processor) {
            return Err(EngineError::Device {
                name: "the processor".to_owned(),
                message: format!("it stores keys and values as f16, not as {}; choose a GPU", self.name()),
            });
        }
        Ok(Self::default())
    }

    /// A planner that plans it, and the governor if there is one.
    pub(super) fn plan(
        self,
        planner: Box<dyn Planner>,
        backend: &mut dyn Backend,
    ) -> (Box<dyn Planner>, Option<Governor>) {
        match self {
            Self::Fixed(KvPrecision::F16) => (planner, None),
            Self::Fixed(precision) => (Box::new(PrecisionPlanner::fixed(planner, precision)), None),
            Self::Governed(settings) => {
                let governor = Governor::new(settings);
                backend.govern(governor.clone());
                (Box::new(PrecisionPlanner::governed(planner, governor.clone())), Some(governor))
            }
        }
    }
}

/// What computes, for receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    /// `cpu`, `cuda`, or the governor's mode.
    pub mode: &'static str,
    /// What blocks get that become complete now.
    pub kv_precision: KvPrecision,
}

impl Engine {
    /// What computes now.
    pub fn hardware(&self) -> Hardware {
        let precision = match (&self.governor, self.facts.kv) {
            (Some(governor), _) => governor.precision(),
            (None, KvChoice::Fixed(precision)) => precision,
            (None, KvChoice::Governed(_)) => KvPrecision::F16,
        };
        let mode = match &self.governor {
            Some(governor) => governor.report().mode.name(),
            None if self.facts.device == "cpu" => "cpu",
            None if precision == KvPrecision::Q4 => "hbm_optimized",
            None => "cuda",
        };
        Hardware { mode, kv_precision: precision }
    }

    /// The governor's state and its decisions, where one is in force.
    pub fn governor(&self) -> Option<Report> {
        self.governor.as_ref().map(Governor::report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_refuses_what_it_cannot_store() {
        let processor = DeviceChoice::Processor;
        assert!(KvChoice::default().on_processor(processor).unwrap().is_exact());
        for choice in [KvChoice::Fixed(KvPrecision::Q8), KvChoice::Governed(Settings::default())] {
            let error = choice.on_processor(processor).unwrap_err();
            assert_eq!(error.catalogue_type(), "configuration_error");
            assert!(error.to_string().contains(choice.name()), "{error}");
        }
    }
}
