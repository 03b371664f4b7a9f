//! The reference: core's pure function over a map.

use std::collections::BTreeMap;

use tollgate_core::store::{State, settle, state_indexes};
use tollgate_core::{Charge, Time, Verdict};

/// A limit's id, a namespace and an entity.
type StateKey = (u64, Vec<u8>, Vec<u8>);

fn state_key(charge: &Charge<'_>) -> StateKey {
    (charge.limit().id(), charge.key().namespace().to_vec(), charge.key().entity().to_vec())
}

/// A reference model: core's pure function and a map of states. Every exact store decides as it does.
#[derive(Clone, Debug, Default)]
pub struct Pure {
    states: BTreeMap<StateKey, State>,
}

impl Pure {
    /// Returns from when on the state of a charge's key equals a fresh one; the epoch if it has none.
    pub fn fresh_at(&self, charge: &Charge<'_>) -> Time {
        self.states.get(&state_key(charge)).map_or(Time::EPOCH, State::fresh_at)
    }

    /// Decides a request of these charges at `now`.
    pub fn decide(&mut self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (indexes, count) = state_indexes(charges);
        let mut states = vec![State::default(); count];
        for (charge, index) in charges.iter().zip(&indexes) {
            states[*index] = self.states.get(&state_key(charge)).cloned().unwrap_or_default();
        }
        let verdict = settle(charges, &indexes, &mut states, now);
        for (charge, index) in charges.iter().zip(&indexes) {
            self.states.insert(state_key(charge), states[*index].clone());
        }
        verdict
    }
}
