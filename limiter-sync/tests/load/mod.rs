//! Load on nodes in real time, and what was granted of it, in slots of a tenth of a second.
//!
//! The machine may be slow. So nothing here is compared with a clock but with what callers asked for in the same slots:
//! a caller that was kept waiting asks for less and does not catch up.

pub(crate) mod fairness;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Clock, Limit, SystemClock, Time, Timer};

/// The length of a slot.
pub(crate) const SLOT: Duration = Duration::from_millis(100);
/// The number of slots in a second.
pub(crate) const PER_SECOND: u64 = 10;
/// How much of a node's part has to be usable in the slots that are judged.
const NEARLY_ALL: f64 = 0.95;
/// The pause between two visits of a caller.
const PAUSE: Duration = Duration::from_millis(10);

/// What happened in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) offered: u32,
    pub(crate) granted: u32,
}

/// What the callers of one node offered and were granted. Slots are numbered from the epoch, so that those of several
/// processes can be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    pub(crate) by_number: BTreeMap<u64, Slot>,
}

impl Slots {
    pub(crate) fn add(&mut self, number: u64, slot: Slot) {
        let sum = self.by_number.entry(number).or_default();
        sum.offered += slot.offered;
        sum.granted += slot.granted;
    }

    fn sum(&self, slots: Range<u64>, count: impl Fn(&Slot) -> u32) -> u32 {
        self.by_number.range(slots).map(|(_, slot)| count(slot)).sum()
    }

    pub(crate) fn offered(&self, slots: Range<u64>) -> u32 {
        self.sum(slots, |slot| slot.offered)
    }

    /// Returns whether nearly all of a part, so much per slot, could be used: in a slot in which callers did not get
    /// to ask for it, because the machine was slow, that part is lost.
    pub(crate) fn can_use(&self, slots: Range<u64>, part: f64) -> bool {
        let all = f64::from(u32::try_from(slots.end - slots.start).expect("few")) * part;
        let offered = self.by_number.range(slots).map(|(_, slot)| f64::from(slot.offered).min(part));
        offered.sum::<f64>() >= all * NEARLY_ALL
    }

    pub(crate) fn granted(&self, slots: Range<u64>) -> u32 {
        self.sum(slots, |slot| slot.granted)
    }
}

/// Returns the number of the slot that contains an instant.
pub(crate) fn slot(at: Time) -> u64 {
    at.nanos() / u64::try_from(SLOT.as_nanos()).expect("short")
}

/// What the callers of a node ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Checks per second at first.
    pub(crate) before: f64,
    /// After so long the demand changes.
    pub(crate) change: Duration,
    /// Checks per second from then on.
    pub(crate) after: f64,
}

impl Demand {
    /// Starts after so long.
    pub(crate) fn starting(change: Duration, after: f64) -> Self {
        Self { before: 0.0, change, after }
    }

    /// Checks one key on a node, from an instant on until another. Returns what was granted.
    pub(crate) async fn call(
        self,
        node: &impl Store,
        limit: &Limit,
        key: &str,
        start: Time,
        end: Time,
    ) -> Slots {
        let (clock, mut slots, mut due) = (SystemClock::new(), Slots::default(), 0.0);
        loop {
            let now = clock.now();
            if now >= end {
                return slots;
            }
            let rate = if now.since(start) < self.change { self.before } else { self.after };
            due += rate * PAUSE.as_secs_f64();
            while due >= 1.0 {
                due -= 1.0;
                let decision = node.decide_one(&limit.charge(key), &clock).await.expect("decided locally");
                slots.add(slot(clock.now()), Slot { offered: 1, granted: decision.granted() });
            }
            // The load itself: this many checks per second.
            clock.sleep(PAUSE).await;
        }
    }
}
