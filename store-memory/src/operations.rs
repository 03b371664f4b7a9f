//! Answers to calls that were named, for as long as they may be repeated.

use std::collections::{HashMap, VecDeque};

use std::time::Duration;

use tollgate_core::{IdempotencyKey, Time, Verdict};

/// How many answers one part remembers at most; beyond that, named calls are refused.
const MOST: usize = 16_384;
/// For how long.
pub(crate) const MEMORY: Duration = Duration::from_secs(60);

/// The answers of a while.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    answers: HashMap<IdempotencyKey, Verdict>,
    order: VecDeque<(Time, IdempotencyKey)>,
}

impl Operations {
    pub(crate) fn answer(&self, id: IdempotencyKey) -> Option<Verdict> {
        self.answers.get(&id).cloned()
    }

    /// Whether there is room for another answer: none is forgotten before its time.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        while let Some((until, old)) = self.order.front()
            && *until <= now
        {
            self.answers.remove(old);
            self.order.pop_front();
        }
        self.order.len() < MOST
    }

    pub(crate) fn remember(&mut self, id: IdempotencyKey, verdict: Verdict, now: Time) {
        self.order.push_back((now + MEMORY, id));
        self.answers.insert(id, verdict);
    }
}
