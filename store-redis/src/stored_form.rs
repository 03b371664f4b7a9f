//! How the state of each algorithm is stored. An algorithm that this crate does not know is refused.

use tollgate_core::{AlgorithmKind, Limit, StoreError};

use crate::error;

/// How a state is stored under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredForm {
    /// A string with a theoretical arrival time; see `flow_value`.
    Flow,
    /// A string with the fields of the algorithm's state.
    Fields,
    /// A string with a header and a log of entries.
    Log,
    /// A sorted set of leases.
    Leases,
}

impl StoredForm {
    /// Returns the form of a limit's states, or an error if this store does not implement its algorithm.
    pub(crate) fn of(limit: &Limit) -> Result<Self, StoreError> {
        match limit.kind() {
            AlgorithmKind::IntervalBucket
            | AlgorithmKind::FixedWindow
            | AlgorithmKind::SlidingCounter
            | AlgorithmKind::SlidingWindow
            | AlgorithmKind::SmoothWarmingUp => Ok(Self::Fields),
            AlgorithmKind::SlidingLog => Ok(Self::Log),
            AlgorithmKind::Concurrency => Ok(Self::Leases),
            AlgorithmKind::TokenBucket
            | AlgorithmKind::LeakyMeter
            | AlgorithmKind::LeakyQueue
            | AlgorithmKind::Gcra
            | AlgorithmKind::SmoothBursty => Ok(Self::Flow),
            _ => Err(error::unknown_algorithm(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    #[test]
    fn every_algorithm_has_a_script() {
        for kind in AlgorithmKind::ALL {
            let mut files = script::AlgorithmFiles::default();
            files.add(kind);
            assert_ne!(files, script::AlgorithmFiles::default(), "{}", kind.name());
        }
    }
}
