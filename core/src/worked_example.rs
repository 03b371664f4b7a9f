//! The fixture of worked examples: a limit, a state and a time that the test moves.

use core::time::Duration;

use crate::charge::{Action, Charge, LeaseId};
use crate::decision::Decision;
use crate::limit::{Limit, LimitBuilder};
use crate::state::State;
use crate::time::Time;

pub(crate) struct Example {
    limit: Limit,
    state: State,
    now: Time,
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a time of day, far from the Unix epoch.
pub(crate) fn hours_and_minutes(hours: u64, minutes: u64) -> Time {
    Time::from_secs(20_000 * 86_400 + hours * 3600 + minutes * 60)
}

impl Example {
    pub(crate) fn new(limit: LimitBuilder) -> Self {
        let limit = limit.build("example").expect("valid");
        Self { limit, state: State::default(), now: hours_and_minutes(0, 0) }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn set(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn advance(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    pub(crate) fn change(&mut self, limit: LimitBuilder) {
        self.limit = limit.build("example").expect("valid");
    }

    fn charge(&mut self, with: impl FnOnce(Charge<'_>) -> Charge<'_>) -> Decision {
        let charge = with(self.limit.charge("key"));
        charge.supported().expect("supported by the algorithm");
        let operation = charge.operation;
        self.state.decide(&self.limit, self.now, &operation)
    }

    fn act(&mut self, cost: u32, action: Action) -> Decision {
        self.charge(|charge| charge.with_cost(cost).with_action(action))
    }

    pub(crate) fn take(&mut self, cost: u32) -> Decision {
        self.act(cost, Action::Take { max_wait: None })
    }

    pub(crate) fn peek(&mut self) -> Decision {
        self.take(0)
    }

    pub(crate) fn reserve(&mut self, cost: u32, max_wait: Duration) -> Decision {
        self.act(cost, Action::Take { max_wait: Some(max_wait) })
    }

    pub(crate) fn debit(&mut self, cost: u32) -> Decision {
        self.act(cost, Action::Debit { at: None })
    }

    pub(crate) fn debit_at(&mut self, cost: u32, at: Time) -> Decision {
        self.act(cost, Action::Debit { at: Some(at) })
    }

    pub(crate) fn refund(&mut self, cost: u32) -> Decision {
        self.act(cost, Action::Refund { at: None })
    }

    pub(crate) fn refund_at(&mut self, cost: u32, at: Time) -> Decision {
        self.act(cost, Action::Refund { at: Some(at) })
    }

    pub(crate) fn lease(&mut self, action: Action, lease: u128) -> Decision {
        self.charge(|charge| charge.with_action(action).with_lease(LeaseId::new(lease)))
    }
}
