//! What the pure function says.

use std::collections::BTreeMap;

use tollgate_core::store::{State, settle, slots};
use tollgate_core::{Charge, Time, Verdict};

type Whom = (u64, Vec<u8>, Vec<u8>);

fn whom(charge: &Charge<'_>) -> Whom {
    (charge.limit().id(), charge.key().namespace().to_vec(), charge.key().entity().to_vec())
}

/// A store that is nothing but core's pure function and a map: what any other store must say, too.
#[derive(Clone, Debug, Default)]
pub struct Pure {
    states: BTreeMap<Whom, State>,
}

impl Pure {
    /// Decides a request of these charges at `now`.
    pub fn decide(&mut self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (slots, count) = slots(charges);
        let mut states = vec![State::default(); count];
        for (charge, slot) in charges.iter().zip(&slots) {
            states[*slot] = self.states.get(&whom(charge)).cloned().unwrap_or_default();
        }
        let verdict = settle(charges, &slots, &mut states, now);
        for (charge, slot) in charges.iter().zip(&slots) {
            self.states.insert(whom(charge), states[*slot].clone());
        }
        verdict
    }
}
