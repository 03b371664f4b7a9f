//! The interface of subjects in this process: a limiter behind one method, and how to build it.

use std::hint::black_box;
use std::time::Duration;

use crate::keys::Walk;

/// How every check of a workload is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Every check is admitted.
    Admitted,
    /// Every check is denied.
    Denied,
}

/// The limit of all subjects: `count` per `period`, with a burst of `count`.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub count: u32,
    pub period: Duration,
}

impl Traffic {
    /// Returns the limit that causes this traffic.
    pub const fn quota(self) -> Quota {
        match self {
            // No run reaches this count, and the period is so long that nothing expires while other subjects are
            // measured.
            Self::Admitted => Quota { count: 4_000_000_000, period: Duration::from_secs(1_000) },
            // A power of two, so that a rate as a float (1 / period) is exact.
            Self::Denied => Quota { count: 1, period: Duration::from_secs(1 << 17) },
        }
    }
}

/// A limiter under measurement. `check` returns whether the call was admitted.
///
/// A limiter without keys ignores the key.
pub trait Subject: Sync {
    fn check(&self, key: &str) -> bool;

    /// Checks `checks` keys along the walk, and returns how many were admitted.
    ///
    /// A provided method is compiled once per subject, so that its calls to `check` are static: one dynamic dispatch
    /// per lap.
    fn lap(&self, mut walk: Walk<'_>, checks: u32) -> u32 {
        let mut admitted = 0;
        for _ in 0..checks {
            admitted += u32::from(self.check(black_box(walk.step())));
        }
        admitted
    }
}

/// Builds a limiter without keys for the traffic.
pub type Direct = fn(Traffic) -> Box<dyn Subject>;
/// Builds a keyed limiter for the traffic, with room for a number of keys.
pub type Keyed = fn(Traffic, usize) -> Box<dyn Subject>;

/// A row of the table: a limiter by name, and its forms.
pub struct Contestant {
    pub name: &'static str,
    pub direct: Option<Direct>,
    pub keyed: Option<Keyed>,
    /// The workloads that it is measured on. `None`: all that need a form that it has.
    pub workloads: Option<&'static [&'static str]>,
    /// Another project's limiter: if it cannot do a workload, that is a finding, not an error.
    pub peer: bool,
}
