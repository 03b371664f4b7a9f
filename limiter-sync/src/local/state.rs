//! What a node knows of a key. Only this file distinguishes the two kinds.

use tollgate_core::store::{Flow, PlainTake, State};
use tollgate_core::{Action, Charge, Decision, Time};

use super::acquisition::Acquisition;
use super::decide::NotLocal;
use super::lease::{LeaseAction, TokenLease};
use super::replica::{OutOfShare, Replica, Sending, Update, deny};
use crate::config::{LimitConfig, Mode, WhenStale};

/// What a key is decided by.
#[derive(Debug)]
pub(crate) enum LocalState {
    /// A replica of the central state ([`Mode::Deltas`]).
    Replica(Replica),
    /// Leased tokens ([`Mode::Lease`]).
    Lease(Box<TokenLease>),
}

/// How a request of several charges continues with one of them.
#[derive(Debug)]
pub(crate) enum Prepared<'a> {
    /// Its replica decides this charge, together with the others.
    Replica(Charge<'a>),
    /// It is denied.
    Denied(Decision),
    /// Leased tokens decided it; they are put back if another charge stops the request.
    Drawn(Decision),
    /// It cannot be decided locally.
    NotLocal(NotLocal),
}

impl LocalState {
    /// Creates the state of an unused key.
    pub(crate) fn new(mode: Mode) -> Self {
        match mode {
            Mode::Deltas => Self::Replica(Replica::default()),
            Mode::Lease => Self::Lease(Box::default()),
        }
    }

    /// Creates a replica of a central state.
    pub(crate) fn from_central(state: State) -> Self {
        Self::Replica(Replica::from_central(state))
    }

    /// Continues under the changed parameters of a limit. Returns whether it can.
    pub(super) fn reconfigure(&mut self, config: &LimitConfig) -> bool {
        match (self, config.mode) {
            (Self::Replica(_), Mode::Deltas) => true,
            (Self::Lease(lease), Mode::Lease) => {
                lease.keep_at_most(config.max_lease);
                true
            }
            (Self::Replica(_), Mode::Lease) | (Self::Lease(_), Mode::Deltas) => false,
        }
    }

    // Decisions.

    /// Takes from a plain bucket: the path of nearly all calls. `None` if [`decide`](Self::decide) has to decide.
    #[inline]
    pub(super) fn take(
        &mut self,
        flow: &Flow,
        cost: u32,
        config: &LimitConfig,
        now: Time,
    ) -> Option<PlainTake> {
        match self {
            Self::Replica(replica) => replica.take(flow, cost, config, now),
            Self::Lease(_) => None,
        }
    }

    /// Decides a single charge. `again`: the demand of this charge has been counted before.
    pub(super) fn decide(
        &mut self,
        charge: &Charge<'_>,
        config: &LimitConfig,
        now: Time,
        stale: bool,
        again: bool,
    ) -> Result<Decision, NotLocal> {
        match self {
            Self::Replica(replica) if stale => Ok(replica.decide_stale(charge, config, now)),
            Self::Replica(replica) => match replica.decide(charge, config, now, true) {
                Ok(decision) | Err(OutOfShare::Denied(decision)) => Ok(decision),
                Err(OutOfShare::NeedsTokens) => Err(NotLocal::NeedsTokens(0)),
            },
            Self::Lease(lease) if again => lease.decide_again(charge, now),
            Self::Lease(lease) => lease.decide(charge, now),
        }
    }

    /// Prepares one of several charges. Also returns whether its decision is a fallback.
    pub(super) fn prepare<'a>(
        &mut self,
        charge: &Charge<'a>,
        config: &'a LimitConfig,
        now: Time,
        stale: bool,
    ) -> (Prepared<'a>, bool) {
        let replica = match self {
            Self::Replica(replica) => replica,
            Self::Lease(lease) => {
                return match lease.decide(charge, now) {
                    Ok(decision) => (Prepared::Drawn(decision), false),
                    Err(reason) => (Prepared::NotLocal(reason), false),
                };
            }
        };
        let when_stale =
            if stale && charge.action().is_take() { config.when_stale } else { WhenStale::Continue };
        let prepared = match (when_stale, &config.stale_share) {
            (WhenStale::Continue, _) => match replica.within_share(charge, config, now, !stale) {
                Ok(part) => Prepared::Replica(part),
                Err(OutOfShare::Denied(denial)) => Prepared::Denied(denial),
                Err(OutOfShare::NeedsTokens) => Prepared::NotLocal(NotLocal::NeedsTokens(0)),
            },
            (WhenStale::Share { .. }, Some(share)) => Prepared::Replica(charge.with_limit(share)),
            (WhenStale::Share { .. }, None) | (WhenStale::Deny, _) => Prepared::Denied(deny(charge, config)),
        };
        (prepared, stale)
    }

    /// Returns the state of a replica; `None` if this is a lease.
    pub(super) fn replica_state(&self) -> Option<State> {
        match self {
            Self::Replica(replica) => Some(replica.state()),
            Self::Lease(_) => None,
        }
    }

    /// Stores the state of a replica after a request of several charges.
    pub(super) fn set_replica_state(&mut self, state: State) {
        match self {
            Self::Replica(replica) => replica.set_state(state),
            Self::Lease(_) => {}
        }
    }

    /// Records a grant of a replica as a pending delta.
    pub(super) fn record(
        &mut self,
        charge: &Charge<'_>,
        decision: &Decision,
        config: &LimitConfig,
        now: Time,
    ) {
        match self {
            Self::Replica(replica) => replica.record(charge, decision, config, now),
            Self::Lease(_) => {}
        }
    }

    /// Puts back drawn tokens of a request that another charge stopped.
    pub(super) fn put_back(&mut self, tokens: u32) {
        match self {
            Self::Replica(_) => {}
            Self::Lease(lease) => lease.put_back(tokens),
        }
    }

    // Synchronization.

    /// Returns whether there are pending deltas.
    pub(crate) fn has_deltas(&self) -> bool {
        match self {
            Self::Replica(replica) => replica.has_pending(),
            Self::Lease(_) => false,
        }
    }

    /// Returns whether there are pending deltas or leased tokens.
    pub(super) fn has_pending(&self) -> bool {
        match self {
            Self::Replica(replica) => replica.has_pending(),
            Self::Lease(lease) => lease.is_held(),
        }
    }

    /// Returns whether the next sync round should include it. A lease takes part for as long as it is used.
    pub(crate) fn needs_sync(&self, config: &LimitConfig, now: Time) -> bool {
        match self {
            Self::Replica(replica) => replica.needs_sync(config, now),
            Self::Lease(_) => true,
        }
    }

    /// Returns whether it stays in the sync rounds even if this one has nothing to do for it.
    pub(crate) fn stays_due(&self, config: &LimitConfig, now: Time) -> bool {
        match self {
            Self::Replica(replica) => replica.waits_for_report(config, now),
            Self::Lease(lease) => !lease.is_unused(),
        }
    }

    /// Returns whether it equals the state of an unused key.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        match self {
            Self::Replica(replica) => replica.fresh_at() <= now && !replica.has_pending(),
            Self::Lease(lease) => lease.is_fresh(now),
        }
    }

    /// Returns from when on a replica equals a fresh one.
    pub(super) fn fresh_at(&self) -> Time {
        match self {
            Self::Replica(replica) => replica.fresh_at(),
            Self::Lease(_) => Time::EPOCH,
        }
    }

    /// Takes what a sync round sends for a replica. `random` is a random number below 1.
    pub(crate) fn take_deltas(&mut self, config: &LimitConfig, now: Time, random: f64) -> Option<Sending> {
        match self {
            Self::Replica(replica) => Some(replica.take_pending(config, now, random)),
            Self::Lease(_) => None,
        }
    }

    /// Applies the result of a sync round to a replica, and returns the debt of the central balance in tokens.
    pub(crate) fn update(&mut self, update: Update, config: &LimitConfig, now: Time) -> f64 {
        match self {
            Self::Replica(replica) => replica.update(update, config, now),
            Self::Lease(_) => 0.0,
        }
    }

    /// Applies the result of a call that was not a sync round to a replica, if it has no more tokens than the replica.
    pub(crate) fn update_if_lower(&mut self, update: Update, config: &LimitConfig, now: Time) {
        match self {
            Self::Replica(replica) => replica.update_if_lower(update, config, now),
            Self::Lease(_) => {}
        }
    }

    /// Applies what the central store granted itself.
    pub(crate) fn granted_centrally(&mut self, charge: &Charge<'_>, decision: &Decision, now: Time) {
        match self {
            Self::Replica(replica) => replica.granted_centrally(charge, decision, now),
            Self::Lease(_) => {}
        }
    }

    /// Applies a delta that the central store has applied already, and returns how much it takes from the balance.
    pub(crate) fn applied_centrally(&mut self, delta: &Charge<'_>, now: Time) -> i64 {
        match self {
            Self::Replica(replica) => replica.apply_granted(*delta, now),
            Self::Lease(_) => {}
        }
        let amount = i64::from(delta.cost());
        if matches!(delta.action(), Action::Refund { .. }) { -amount } else { amount }
    }

    // Tokens from the central store.

    /// Starts to acquire tokens for a charge, or joins a call in flight. `None` if the charge can be decided again as it
    /// is. `again`: the caller has waited before.
    pub(crate) fn acquire<'a>(
        &mut self,
        charge: &Charge<'a>,
        config: &LimitConfig,
        again: bool,
    ) -> Option<Acquisition<'a>> {
        match self {
            Self::Replica(replica) => replica.acquire(charge, again),
            Self::Lease(lease) => Some(lease.acquire(charge, config)),
        }
    }

    /// Adds the tokens that the central store granted.
    pub(crate) fn acquired(
        &mut self,
        sent: &Charge<'_>,
        decision: &Decision,
        decided_at: Time,
        config: &LimitConfig,
        now: Time,
    ) {
        match self {
            Self::Replica(replica) => replica.acquired(decision, decided_at, config, now),
            Self::Lease(lease) => lease.acquired(sent, decision, decided_at, config),
        }
    }

    /// Ends an attempt to acquire tokens that failed.
    pub(crate) fn acquire_failed(&mut self, config: &LimitConfig, now: Time) {
        match self {
            Self::Replica(replica) => replica.acquire_failed(config, now),
            Self::Lease(lease) => lease.acquire_failed(config, now),
        }
    }

    /// Notes that a call may have taken tokens, although its answer was lost. It will be repeated.
    pub(crate) fn doubt_tokens(&mut self) {
        match self {
            Self::Replica(replica) => replica.doubt_tokens(),
            Self::Lease(_) => {}
        }
    }

    /// Ends such a doubt, with what the repeated call was answered, and when it was decided; `None` if it took no tokens.
    pub(crate) fn resolve_tokens_in_doubt(
        &mut self,
        decision: Option<(&Decision, Time)>,
        config: &LimitConfig,
        now: Time,
    ) {
        match self {
            Self::Replica(replica) => replica.resolve_tokens_in_doubt(decision, config, now),
            Self::Lease(_) => {}
        }
    }

    /// Ends an attempt to acquire tokens whose caller has gone away.
    pub(crate) fn stop_acquiring(&mut self, config: &LimitConfig, now: Time) {
        match self {
            Self::Replica(replica) => replica.acquire_failed(config, now),
            Self::Lease(lease) => lease.stop_acquiring(),
        }
    }

    /// Returns what a sync round has to do for a lease, and with which action. `closing` returns all tokens.
    pub(crate) fn start_lease_round(
        &mut self,
        config: &LimitConfig,
        closing: bool,
        now: Time,
    ) -> Option<(LeaseAction, Action)> {
        let Self::Lease(lease) = self else { return None };
        let todo = if closing { lease.return_all() } else { lease.start_round(config, now) };
        match todo {
            LeaseAction::Acquire(_) => Some((todo, Action::TakeUpTo)),
            LeaseAction::Return(_) => Some((todo, lease.refund(config))),
            LeaseAction::Keep | LeaseAction::Idle => None,
        }
    }

    /// Returns the lease, if this is one.
    pub(crate) fn lease_mut(&mut self) -> Option<&mut TokenLease> {
        match self {
            Self::Replica(_) => None,
            Self::Lease(lease) => Some(lease),
        }
    }
}
