//! Who goes at once, who waits, and which calls are under way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::{Clock, Time};

use super::gathering::{Gathering, Waiting};
use super::seats::Waiter;

/// Calls of a lane that may be under way at once, hung ones among them: a store that answers nobody is not asked without end.
pub(super) const MOST_CALLS: u32 = 16;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Calls under way at once.
    pub(super) in_flight: u32,
    /// After which calls are overtaken.
    pub(super) patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { in_flight: 4, patience: Duration::from_millis(10) }
    }
}

/// All lanes in which something is going on; the others are not remembered.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    busy: Mutex<HashMap<u64, Lane>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Calls under way.
    calls: u32,
    /// How many of them have been overtaken: they do not count any more, except towards the most there may be.
    overtaken: u32,
    /// How often that happened. Calls of earlier ages are the overtaken ones.
    age: u64,
    /// When the newest call began.
    newest: Time,
    /// Those who wait, in the order of their arrival. While there are any, a call is under way.
    waiting: VecDeque<Gathering>,
}

/// The right to one call; given back to [`Lanes`] when the call has ended.
#[derive(Debug)]
pub(super) struct Ticket {
    lane: u64,
    age: u64,
}

/// What becomes of somebody who arrives.
pub(super) enum Arrival {
    /// It goes at once, by itself.
    Alone(Ticket),
    /// It waits. With a ticket, it starts a call for everybody who does.
    Wait(Waiter, Option<Ticket>),
}

impl Lane {
    /// Begins a call, if another one may be under way.
    fn begin(&mut self, lane: u64, settings: &Settings, clock: &impl Clock) -> Option<Ticket> {
        if self.calls >= MOST_CALLS {
            return None;
        }
        let now = clock.now();
        if self.calls - self.overtaken >= settings.in_flight {
            if now.since(self.newest) < settings.patience {
                return None;
            }
            self.overtaken = self.calls;
            self.age += 1;
        }
        self.calls += 1;
        self.newest = now;
        Some(Ticket { lane, age: self.age })
    }

    fn end(&mut self, ticket: &Ticket) {
        self.calls -= 1;
        if ticket.age != self.age {
            self.overtaken -= 1;
        }
    }

    fn gather(&mut self, waiting: Waiting) -> Waiter {
        match self.waiting.back_mut() {
            Some(last) if !last.is_full() => last.join(waiting),
            _ => {
                let mut next = Gathering::default();
                let waiter = next.join(waiting);
                self.waiting.push_back(next);
                waiter
            }
        }
    }
}

impl Lanes {
    /// Somebody arrives, who would wait as `waiting`.
    pub(super) fn arrive(
        &self,
        number: u64,
        settings: &Settings,
        clock: &impl Clock,
        waiting: impl FnOnce() -> Waiting,
    ) -> Arrival {
        let mut busy = self.lock();
        let lane = busy.entry(number).or_default();
        match lane.begin(number, settings, clock) {
            Some(ticket) if lane.waiting.is_empty() => Arrival::Alone(ticket),
            ticket => Arrival::Wait(lane.gather(waiting()), ticket),
        }
    }

    /// A call has ended. If somebody waits, this is the time for another.
    pub(super) fn end(&self, ticket: &Ticket, settings: &Settings, clock: &impl Clock) -> Option<Ticket> {
        self.finish(ticket, |lane| {
            if lane.waiting.is_empty() { None } else { lane.begin(ticket.lane, settings, clock) }
        })
    }

    /// A call has ended, and the next begins with those who have waited longest.
    pub(super) fn next(
        &self,
        ticket: &Ticket,
        settings: &Settings,
        clock: &impl Clock,
    ) -> Option<(Ticket, Gathering)> {
        self.finish(ticket, |lane| {
            // First, so that there is no call without anybody in it.
            lane.waiting.front()?;
            Some((lane.begin(ticket.lane, settings, clock)?, lane.waiting.pop_front()?))
        })
    }

    /// A call has ended, and no other can follow it: those who would have gone with that, unless there are younger calls to
    /// wait for.
    pub(super) fn give_up(&self, ticket: &Ticket) -> VecDeque<Gathering> {
        let stranded = self
            .finish(ticket, |lane| (lane.calls == lane.overtaken).then(|| std::mem::take(&mut lane.waiting)));
        stranded.unwrap_or_default()
    }

    fn finish<T>(&self, ticket: &Ticket, next: impl FnOnce(&mut Lane) -> Option<T>) -> Option<T> {
        let mut busy = self.lock();
        let lane = busy.get_mut(&ticket.lane)?;
        lane.end(ticket);
        let next = next(lane);
        if lane.calls == 0 {
            busy.remove(&ticket.lane);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Lane>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Limit;
    use tollgate_core::store::OwnedRequest;

    const ONE: Settings = Settings { in_flight: 1, patience: Duration::from_millis(10) };
    const NOW: Time = Time::from_secs(1_790_000_000);

    fn arrive(lanes: &Lanes, number: u64, now: Time) -> Arrival {
        let limit = Limit::per_hour(10).build("api").expect("valid");
        let waiting = || Waiting { request: OwnedRequest::from(&limit.charge("a")), now };
        lanes.arrive(number, &ONE, &now, waiting)
    }

    fn alone(lanes: &Lanes, number: u64, now: Time) -> Ticket {
        match arrive(lanes, number, now) {
            Arrival::Alone(ticket) => ticket,
            Arrival::Wait(..) => panic!("nobody is under way"),
        }
    }

    #[test]
    fn idle_lanes_are_not_remembered() {
        let (lanes, settings) = (Lanes::default(), ONE);
        let tickets: Vec<_> = (0..1_000).map(|number| alone(&lanes, number, NOW)).collect();
        assert_eq!(lanes.lock().len(), 1_000);
        for ticket in &tickets[1..] {
            assert!(lanes.end(ticket, &settings, &NOW).is_none(), "nobody waits");
        }
        assert_eq!(lanes.lock().len(), 1);
        let Arrival::Wait(_waiter, None) = arrive(&lanes, 0, NOW) else { panic!("one is under way") };
        let next = lanes.end(&tickets[0], &settings, &NOW).expect("somebody waits");
        let (next, gathering) = lanes.next(&next, &settings, &NOW).expect("the same somebody");
        gathering.dismiss();
        assert_eq!(lanes.lock().len(), 1);
        assert!(lanes.next(&next, &settings, &NOW).is_none());
        assert_eq!(lanes.lock().len(), 0);
    }

    #[test]
    fn a_lane_does_not_keep_more_calls_than_it_should_because_one_was_overtaken() {
        let (lanes, settings) = (Lanes::default(), ONE);
        let slow = alone(&lanes, 0, NOW);
        let late = NOW + settings.patience;
        let overtakes = alone(&lanes, 0, late);
        let Arrival::Wait(_waiter, None) = arrive(&lanes, 0, late) else { panic!("one is under way") };
        assert!(lanes.end(&slow, &settings, &late).is_none(), "the younger call is the one to wait for");
        assert!(lanes.end(&overtakes, &settings, &late).is_some());
    }

    #[test]
    fn nobody_is_left_behind_by_a_call_that_nothing_can_follow() {
        let (lanes, settings) = (Lanes::default(), ONE);
        let hangs = alone(&lanes, 0, NOW);
        let ends = alone(&lanes, 0, NOW + settings.patience);
        let Arrival::Wait(_waiter, None) = arrive(&lanes, 0, NOW) else { panic!("one is under way") };
        assert_eq!(lanes.give_up(&ends).len(), 1, "the other call has been overtaken");
        assert!(lanes.give_up(&hangs).is_empty());
        assert_eq!(lanes.lock().len(), 0);
    }
}
