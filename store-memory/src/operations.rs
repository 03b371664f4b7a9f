//! Answers to calls that were named, for as long as they may be repeated.

use std::collections::{HashMap, VecDeque};

use std::time::Duration;

use tollgate_core::{OperationId, Time, Verdict};

/// How many answers one part remembers at most; the oldest go first.
const MOST: usize = 4096;
/// For how long.
pub(crate) const MEMORY: Duration = Duration::from_secs(60);

/// The answers of a while.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    answers: HashMap<OperationId, Verdict>,
    order: VecDeque<(Time, OperationId)>,
}

impl Operations {
    pub(crate) fn answer(&self, id: OperationId) -> Option<Verdict> {
        self.answers.get(&id).cloned()
    }

    pub(crate) fn remember(&mut self, id: OperationId, verdict: Verdict, now: Time) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) || self.order.len() >= MOST {
            if let Some((_, old)) = self.order.pop_front() {
                self.answers.remove(&old);
            }
        }
        self.order.push_back((now + MEMORY, id));
        self.answers.insert(id, verdict);
    }
}
