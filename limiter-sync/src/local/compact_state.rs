//! A state in little space.

use tollgate_core::store::{State, Tat};
use tollgate_core::{Charge, Decision, Time};

/// A state in little space: nearly all are buckets, whose state is a word and a half.
#[derive(Clone, Debug)]
pub(super) enum CompactState {
    Tat(Tat),
    Other(Box<State>),
}

impl Default for CompactState {
    fn default() -> Self {
        Self::Tat(Tat::default())
    }
}

impl From<State> for CompactState {
    fn from(state: State) -> Self {
        match state.as_flow() {
            Some(tat) => Self::Tat(tat),
            None => Self::Other(Box::new(state)),
        }
    }
}

impl CompactState {
    pub(super) fn to_state(&self) -> State {
        match self {
            Self::Tat(tat) => State::from_flow(*tat),
            Self::Other(state) => State::clone(state),
        }
    }

    /// Returns the theoretical arrival time, if that is the whole state.
    #[inline]
    pub(super) fn tat_mut(&mut self) -> Option<&mut Tat> {
        match self {
            Self::Tat(tat) => Some(tat),
            Self::Other(_) => None,
        }
    }

    /// Returns from when on the state equals a fresh one.
    pub(super) fn fresh_at(&self) -> Time {
        match self {
            Self::Tat(tat) => tat.at,
            Self::Other(state) => state.fresh_at(),
        }
    }

    /// Decides a charge, and updates the state.
    pub(super) fn apply(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        match self {
            Self::Tat(tat) => {
                let mut state = State::from_flow(*tat);
                let decision = state.apply(charge, now);
                *self = state.into();
                decision
            }
            Self::Other(state) => state.apply(charge, now),
        }
    }
}
