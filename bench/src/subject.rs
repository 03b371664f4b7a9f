//! What is measured: a limiter behind one method, and how to build it.

use std::hint::black_box;
use std::time::Duration;

use crate::keys::Walk;

/// What every check of a workload is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Every check is admitted.
    Admitted,
    /// Every check is denied.
    Denied,
}

/// `count` per `period`, as a burst: the limit each subject is given in its own terms.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub count: u32,
    pub period: Duration,
}

impl Traffic {
    /// The limit that brings this traffic about.
    pub const fn quota(self) -> Quota {
        match self {
            // No run comes near this count, and the period is so long that nothing
            // expires and is swept while others are being measured.
            Self::Admitted => Quota { count: 4_000_000_000, period: Duration::from_secs(1_000) },
            // A power of two, so that a rate kept as a float (1 / period) is exact.
            Self::Denied => Quota { count: 1, period: Duration::from_secs(1 << 17) },
        }
    }
}

/// One limiter under test. `check` says whether the call was admitted.
///
/// An unkeyed limiter ignores the key.
pub trait Subject: Sync {
    fn check(&self, key: &str) -> bool;

    /// Checks `checks` keys along the walk and says how many were admitted.
    ///
    /// Provided here, so that it is compiled once per subject and the calls to `check`
    /// inside are direct ones: the dynamic dispatch is paid once per lap.
    fn lap(&self, mut walk: Walk<'_>, checks: u32) -> u32 {
        let mut admitted = 0;
        for _ in 0..checks {
            admitted += u32::from(self.check(black_box(walk.step())));
        }
        admitted
    }
}

/// Builds an unkeyed limiter for the traffic.
pub type Direct = fn(Traffic) -> Box<dyn Subject>;
/// Builds a keyed limiter for the traffic, with room for that many keys.
pub type Keyed = fn(Traffic, usize) -> Box<dyn Subject>;

/// A row of the table: a limiter by name, and the forms it comes in.
pub struct Contestant {
    pub name: &'static str,
    pub direct: Option<Direct>,
    pub keyed: Option<Keyed>,
    /// Measured on the hot key only: a variation of another row.
    pub hot_only: bool,
    /// Somebody else's: not being able to do a workload is a finding, not a bug.
    pub peer: bool,
}
