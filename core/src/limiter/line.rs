//! First come first served, for limits that cannot reserve: whoever waits for a key stands in its line, and
//! only the first in line asks the store.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::charge::Charge;

/// A limit and a key, in full: keys that an attacker chooses must not end up in another's line.
type Whom = (u64, Vec<u8>, Vec<u8>);

/// The lines of all keys that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Lines {
    waiting: Mutex<BTreeMap<Whom, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    standing: VecDeque<(u64, Option<Waker>)>,
}

impl Lines {
    /// Joins the key's line at its end. Dropping the place leaves the line.
    pub(super) fn join(&self, charge: &Charge<'_>) -> Place<'_> {
        let key = charge.key();
        let whom = (charge.limit().id(), key.namespace().to_vec(), key.entity().to_vec());
        let mut lines = self.lock();
        let line = lines.entry(whom.clone()).or_default();
        let number = line.next;
        line.next += 1;
        line.standing.push_back((number, None));
        Place { lines: self, whom, number }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Whom, Line>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a line.
#[derive(Debug)]
pub(super) struct Place<'a> {
    lines: &'a Lines,
    whom: Whom,
    number: u64,
}

impl Place<'_> {
    /// Completes when this is the first in line.
    pub(super) async fn first(&self) {
        poll_fn(|context| {
            let mut lines = self.lines.lock();
            let Some(line) = lines.get_mut(&self.whom) else { return Poll::Ready(()) };
            match line.standing.iter_mut().position(|(number, _)| *number == self.number) {
                None | Some(0) => Poll::Ready(()),
                Some(index) => {
                    line.standing[index].1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(&self.whom) else { return };
        line.standing.retain(|(number, _)| *number != self.number);
        let next = line.standing.front_mut().and_then(|(_, waker)| waker.take());
        if line.standing.is_empty() {
            lines.remove(&self.whom);
        }
        drop(lines);
        if let Some(next) = next {
            next.wake();
        }
    }
}
