//! When a failed call is sent again.

use std::time::Duration;

use crate::error::{Fault, Refusal};

/// The number of redirects that one call follows.
const MAX_REDIRECTS: u32 = 16;
/// The number of retries of a call that no server accepted.
const MAX_RETRIES: u32 = 2;

/// The retries of one call.
#[derive(Default)]
pub(super) struct Retries {
    redirects: u32,
    migrations: u32,
    unaccepted: u32,
    /// The call was sent again although it may have been executed.
    repeated: bool,
    /// There is only one server. If it cannot be reached, calls fail immediately until its backoff has elapsed.
    only_server: bool,
}

impl Retries {
    pub(super) fn new(only_server: bool) -> Self {
        Self { only_server, ..Self::default() }
    }

    /// Returns whether the call was sent again although it may have been executed.
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated
    }

    /// Returns how long to wait before the next attempt, or `None` if there is none.
    pub(super) fn next(&mut self, fault: &Fault, repeatable: bool) -> Option<Duration> {
        let within = |count: &mut u32, max| {
            *count += 1;
            *count <= max
        };
        let wait = match fault {
            Fault::Refused(Refusal::Moved { .. } | Refusal::Ask { .. }) => {
                within(&mut self.redirects, MAX_REDIRECTS).then_some(0)
            }
            // A migration may take any time: only the deadline ends the retries.
            Fault::Refused(Refusal::TryAgain(_)) => {
                self.redirects = 0;
                self.migrations = (self.migrations + 1).min(8);
                Some(self.migrations * 5)
            }
            Fault::NotSent(_) if self.only_server => None,
            Fault::NotSent(_) | Fault::Refused(Refusal::ReadOnly(_) | Refusal::NotReady(_)) => {
                within(&mut self.unaccepted, MAX_RETRIES).then(|| (self.unaccepted - 1) * 20)
            }
            Fault::Lost(_) => (repeatable && !std::mem::replace(&mut self.repeated, true)).then_some(0),
            Fault::Refused(Refusal::NoScript | Refusal::Other(_)) => None,
        };
        wait.map(|millis| Duration::from_millis(millis.into()))
    }
}
