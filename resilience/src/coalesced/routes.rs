//! Which requests are sent directly, which wait, and which calls are in flight, by route.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::{Clock, Time};

use super::batch::{Batch, QueuedRequest};
use super::waiters::Waiter;

/// The most calls in flight of one route, overtaken ones included: calls to a store that hangs do not pile up.
pub(super) const MAX_CALLS: u32 = 16;

/// When a request is sent, and when it waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightLimits {
    pub(super) max_in_flight: u32,
    pub(super) overtake_after: Duration,
}

impl Default for InFlightLimits {
    fn default() -> Self {
        Self { max_in_flight: 4, overtake_after: Duration::from_millis(10) }
    }
}

/// All routes with calls in flight. Idle routes are not kept.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) limits: InFlightLimits,
    table: Mutex<RouteTable>,
}

#[derive(Debug, Default)]
struct RouteTable {
    busy: HashMap<u64, Route>,
    counts: RouteCounts,
}

/// Counted under the lock that every request takes anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RouteCounts {
    pub(super) direct_calls: u64,
    pub(super) overtakes: u64,
}

#[derive(Debug, Default)]
struct Route {
    /// Calls in flight.
    calls: u32,
    /// How many of them have been overtaken. These count towards [`MAX_CALLS`] only.
    overtaken: u32,
    /// How often calls have been overtaken. Calls of earlier generations are the overtaken ones.
    generation: u64,
    /// When the newest call started.
    newest: Time,
    /// Waiting requests, in order. While there are any, a call is in flight.
    waiting: VecDeque<Batch>,
}

/// A call in flight. Returned to [`Routes`] when the call ends.
#[derive(Debug)]
pub(super) struct InFlightCall {
    route: u64,
    generation: u64,
}

/// What happens to a new request.
pub(super) enum Dispatch {
    /// Its caller sends it at once, by itself.
    Direct(InFlightCall),
    /// It waits. If there is a call, its caller starts it, for all waiting requests.
    Wait(Waiter, Option<InFlightCall>),
}

impl Route {
    /// Starts a call if another one may be in flight.
    fn start(
        &mut self,
        route: u64,
        limits: &InFlightLimits,
        clock: &impl Clock,
        counts: &mut RouteCounts,
    ) -> Option<InFlightCall> {
        if self.calls >= MAX_CALLS {
            return None;
        }
        let now = clock.now();
        if self.calls - self.overtaken >= limits.max_in_flight {
            if now.since(self.newest) < limits.overtake_after {
                return None;
            }
            self.overtaken = self.calls;
            self.generation += 1;
            counts.overtakes += 1;
        }
        self.calls += 1;
        self.newest = now;
        Some(InFlightCall { route, generation: self.generation })
    }

    fn end(&mut self, call: &InFlightCall) {
        self.calls -= 1;
        if call.generation != self.generation {
            self.overtaken -= 1;
        }
    }

    fn queue(&mut self, request: QueuedRequest) -> Waiter {
        match self.waiting.back_mut() {
            Some(last) if !last.is_full() => last.join(request),
            _ => {
                let mut next = Batch::default();
                let waiter = next.join(request);
                self.waiting.push_back(next);
                waiter
            }
        }
    }
}

impl Routes {
    pub(super) fn new(limits: InFlightLimits) -> Self {
        Self { limits, table: Mutex::default() }
    }

    /// Admits a request. `queued` creates its queued form if it has to wait.
    pub(super) fn admit(
        &self,
        route: u64,
        clock: &impl Clock,
        queued: impl FnOnce() -> QueuedRequest,
    ) -> Dispatch {
        let mut table = self.lock();
        let RouteTable { busy, counts } = &mut *table;
        let state = busy.entry(route).or_default();
        match state.start(route, &self.limits, clock, counts) {
            Some(call) if state.waiting.is_empty() => {
                counts.direct_calls += 1;
                Dispatch::Direct(call)
            }
            call => Dispatch::Wait(state.queue(queued()), call),
        }
    }

    /// Counts the direct call of a caller that was dismissed from a batch.
    pub(super) fn count_direct_call(&self) {
        self.lock().counts.direct_calls += 1;
    }

    pub(super) fn counts(&self) -> RouteCounts {
        self.lock().counts
    }

    /// Ends a call. If requests are waiting, starts another call for them.
    pub(super) fn end(&self, call: &InFlightCall, clock: &impl Clock) -> Option<InFlightCall> {
        self.finish(call, |route, counts| {
            if route.waiting.is_empty() { None } else { route.start(call.route, &self.limits, clock, counts) }
        })
    }

    /// Ends a call. If requests are waiting, starts another call with the oldest batch.
    pub(super) fn next(&self, call: &InFlightCall, clock: &impl Clock) -> Option<(InFlightCall, Batch)> {
        self.finish(call, |route, counts| {
            // Checked first, because a call needs a batch.
            route.waiting.front()?;
            Some((route.start(call.route, &self.limits, clock, counts)?, route.waiting.pop_front()?))
        })
    }

    /// Ends a call that no other can follow. Returns the waiting batches, unless a newer call will send them.
    pub(super) fn abort(&self, call: &InFlightCall) -> VecDeque<Batch> {
        let stranded = self.finish(call, |route, _| {
            (route.calls == route.overtaken).then(|| std::mem::take(&mut route.waiting))
        });
        stranded.unwrap_or_default()
    }

    fn finish<T>(
        &self,
        call: &InFlightCall,
        next: impl FnOnce(&mut Route, &mut RouteCounts) -> Option<T>,
    ) -> Option<T> {
        let mut table = self.lock();
        let RouteTable { busy, counts } = &mut *table;
        let route = busy.get_mut(&call.route)?;
        route.end(call);
        let next = next(route, counts);
        if route.calls == 0 {
            busy.remove(&call.route);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, RouteTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Limit;
    use tollgate_core::store::OwnedRequest;

    const OVERTAKE_AFTER: Duration = Duration::from_millis(10);
    const NOW: Time = Time::from_secs(1_790_000_000);

    fn routes() -> Routes {
        Routes::new(InFlightLimits { max_in_flight: 1, overtake_after: OVERTAKE_AFTER })
    }

    fn admit(routes: &Routes, route: u64, now: Time) -> Dispatch {
        let limit = Limit::per_hour(10).build("api").expect("valid");
        let queued = || QueuedRequest { request: OwnedRequest::from(&limit.charge("a")), now };
        routes.admit(route, &now, queued)
    }

    fn direct(routes: &Routes, route: u64, now: Time) -> InFlightCall {
        match admit(routes, route, now) {
            Dispatch::Direct(call) => call,
            Dispatch::Wait(..) => panic!("no call is in flight"),
        }
    }

    fn busy(routes: &Routes) -> usize {
        routes.lock().busy.len()
    }

    #[test]
    fn idle_routes_are_not_kept() {
        let routes = routes();
        let calls: Vec<_> = (0..1_000).map(|route| direct(&routes, route, NOW)).collect();
        assert_eq!(busy(&routes), 1_000);
        for call in &calls[1..] {
            assert!(routes.end(call, &NOW).is_none(), "nothing is waiting");
        }
        assert_eq!(busy(&routes), 1);
        let Dispatch::Wait(_waiter, None) = admit(&routes, 0, NOW) else { panic!("a call is in flight") };
        let next = routes.end(&calls[0], &NOW).expect("a request is waiting");
        let (next, batch) = routes.next(&next, &NOW).expect("the same request");
        batch.dismiss();
        assert_eq!(busy(&routes), 1);
        assert!(routes.next(&next, &NOW).is_none());
        assert_eq!(busy(&routes), 0);
    }

    #[test]
    fn an_overtaken_call_does_not_raise_the_number_of_calls_in_flight() {
        let routes = routes();
        let slow = direct(&routes, 0, NOW);
        let late = NOW + OVERTAKE_AFTER;
        let overtaking = direct(&routes, 0, late);
        let Dispatch::Wait(_waiter, None) = admit(&routes, 0, late) else { panic!("a call is in flight") };
        assert!(routes.end(&slow, &late).is_none(), "the newer call is still in flight");
        assert!(routes.end(&overtaking, &late).is_some());
        assert_eq!((routes.counts().direct_calls, routes.counts().overtakes), (2, 1));
    }

    #[test]
    fn an_aborted_call_leaves_no_request_behind() {
        let routes = routes();
        let hanging = direct(&routes, 0, NOW);
        let ending = direct(&routes, 0, NOW + OVERTAKE_AFTER);
        let Dispatch::Wait(_waiter, None) = admit(&routes, 0, NOW) else { panic!("a call is in flight") };
        assert_eq!(routes.abort(&ending).len(), 1, "the other call has been overtaken");
        assert!(routes.abort(&hanging).is_empty());
        assert_eq!(busy(&routes), 0);
    }
}
