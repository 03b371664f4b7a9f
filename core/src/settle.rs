//! The pure function that decides whole requests: all charges are debited or none is.

use alloc::collections::BTreeMap;

use smallvec::SmallVec;

use crate::charge::{Action, Charge, LeaseId, Operation};
use crate::decision::{Decision, Outcome, RawDecision, Verdict};
use crate::state::State;
use crate::time::Time;

/// Decides a request at `now`, and changes the states accordingly. `states[indexes[i]]` is the state of charge `i`;
/// charges with the same limit and key share one ([`state_indexes`]).
///
/// This is the pure function that every store must agree with.
///
/// # Panics
///
/// If there are fewer indexes than charges, or if one of them is not the index of a state.
pub fn settle(charges: &[Charge<'_>], indexes: &[usize], states: &mut [State], now: Time) -> Verdict {
    if let [charge] = charges {
        return Verdict::one(states[indexes[0]].apply(charge, now), now);
    }
    let before: SmallVec<[State; 4]> = states.iter().cloned().collect();
    let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
    for (charge, index) in charges.iter().zip(indexes) {
        decisions.push(states[*index].evaluate(charge.limit, now, &charge.operation));
    }
    if decisions.iter().any(Decision::is_denied) {
        states.clone_from_slice(&before);
        for ((charge, index), decision) in charges.iter().zip(indexes).zip(&mut decisions) {
            if decision.is_allowed() {
                // Its limit had room, but nothing is debited: report the unchanged balance.
                let unchanged = before[*index].clone().evaluate(charge.limit, now, &PEEK).raw();
                let wait = decision.raw().wait;
                *decision = RawDecision { outcome: Outcome::Allowed, granted: 0, wait, ..unchanged }.into();
            } else {
                if charge.limit.kind().is_flow() {
                    // Starts the clock of a clamped TAT, as the denial of a single charge does.
                    let _ = states[*index].evaluate(charge.limit, now, &PEEK);
                }
                *decision = states[*index].record_denial(charge.limit, now, &charge.operation, *decision);
            }
        }
        for (index, state) in states.iter().enumerate() {
            retry_together(charges, indexes, index, state, now, &mut decisions);
        }
    }
    Verdict::new(decisions, now)
}

/// Corrects when a retry makes sense for the denied ones of several charges that share a state: all of them have to
/// pass together.
fn retry_together(
    charges: &[Charge<'_>],
    indexes: &[usize],
    index: usize,
    state: &State,
    now: Time,
    decisions: &mut [Decision],
) {
    let shares = |number: &usize| indexes[*number] == index;
    let numbers = || (0..charges.len()).filter(shares);
    let can_retry = |number: usize| decisions[number].outcome() == Outcome::Denied;
    let renews = |number: usize| charges[number].operation.action == Action::Renew;
    // A lease that is held now may have expired by then, and others may be released at any time.
    if numbers().nth(1).is_none() || !numbers().any(can_retry) || numbers().any(renews) {
        return;
    }
    let sharing: SmallVec<[Charge<'_>; 4]> = numbers().map(|number| charges[number]).collect();
    let wait = wait_for_all(&sharing, state, now);
    for number in numbers() {
        let raw = decisions[number].raw();
        if raw.outcome == Outcome::Denied {
            decisions[number] = match wait {
                Some(wait) => RawDecision { wait, ..raw },
                None => RawDecision { outcome: Outcome::NeverFits, wait: 0, ..raw },
            }
            .into();
        }
    }
}

/// How many instants are tried before the one at which the state is fresh.
const MAX_TRIES: u32 = 8;

/// Returns after what time charges of one state pass together, if no other charge comes first. `None` if they never do.
fn wait_for_all(charges: &[Charge<'_>], state: &State, now: Time) -> Option<u64> {
    // A state has no more room than a fresh one. What is dated counts less the later it is.
    let is_dated = |charge: &Charge<'_>| {
        let action = charge.operation.action;
        action.is_delta() && action.nanos().is_some()
    };
    if !charges.iter().any(is_dated) && attempt(charges, State::default(), now)? > 0 {
        return None;
    }
    let mut at = now;
    for tries in 0..=MAX_TRIES {
        if tries == MAX_TRIES {
            at = at.max(state.fresh_at());
        }
        match attempt(charges, state.clone(), at)? {
            0 => return Some(at.nanos() - now.nanos()),
            wait => at = at.after(wait),
        }
    }
    None
}

/// Tries charges on one state, one after the other. Returns the longest wait; zero if all pass. `None` if one of them
/// can never pass.
fn attempt(charges: &[Charge<'_>], mut state: State, at: Time) -> Option<u64> {
    let mut longest = 0;
    for charge in charges {
        let decision = state.evaluate(charge.limit, at, &charge.operation);
        match decision.outcome() {
            Outcome::Allowed => {}
            Outcome::Denied => {
                longest = longest.max(decision.raw().wait.max(1));
                // The charges behind it have to wait for it, too.
                let least =
                    if charge.operation.action == Action::TakeUpTo { 1 } else { charge.operation.cost };
                let debit = charge.with_cost(least).with_action(Action::Debit { at: None });
                if debit.supported().is_ok() {
                    let _ = state.evaluate(charge.limit, at, &debit.operation);
                }
            }
            Outcome::NeverFits | Outcome::LeaseLost | Outcome::DenyListed => return None,
        }
    }
    Some(longest)
}

const PEEK: Operation =
    Operation { cost: 0, action: Action::Take { max_wait: None }, lease: LeaseId::ANONYMOUS };

/// Up to this number of charges, each is compared with all preceding ones, which needs no allocation.
const MAX_COMPARED: usize = 16;

/// Returns the index of each charge's state, and the number of states. Charges with the same limit and key share a
/// state.
pub fn state_indexes(charges: &[Charge<'_>]) -> (SmallVec<[usize; 4]>, usize) {
    if charges.len() > MAX_COMPARED {
        return state_indexes_of_many(charges);
    }
    let mut indexes: SmallVec<[usize; 4]> = SmallVec::new();
    let mut states = 0;
    for (index, charge) in charges.iter().enumerate() {
        let same = charges[..index].iter().position(|earlier| earlier.same_state(charge));
        indexes.push(same.map_or(states, |earlier| indexes[earlier]));
        states += usize::from(same.is_none());
    }
    (indexes, states)
}

fn state_indexes_of_many(charges: &[Charge<'_>]) -> (SmallVec<[usize; 4]>, usize) {
    let mut known = BTreeMap::new();
    let mut indexes = SmallVec::new();
    for charge in charges {
        let next = known.len();
        indexes.push(*known.entry((charge.key(), charge.limit().id())).or_insert(next));
    }
    (indexes, known.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;
    use alloc::{format, string::String, vec, vec::Vec};

    const NOW: Time = Time::from_secs(1_790_000_000);

    fn run(charges: &[Charge<'_>], states: &mut [State]) -> Verdict {
        let (indexes, _) = state_indexes(charges);
        settle(charges, &indexes, states, NOW)
    }

    #[test]
    fn all_charges_are_debited_or_none_is() {
        let high = Limit::per_second(10).build("high").expect("valid");
        let low = Limit::per_second(2).build("low").expect("valid");
        let mut states = vec![State::default(); 2];
        let denied = run(&[high.charge("a").with_cost(5), low.charge("a").with_cost(3)], &mut states);
        assert!(denied.is_denied());
        assert_eq!(denied.most_restrictive_index(), Some(1));
        assert_eq!(denied.decisions()[0].remaining(), 10, "nothing was debited");
        let allowed = run(&[high.charge("a").with_cost(5), low.charge("a").with_cost(2)], &mut states);
        assert!(allowed.is_allowed());
        assert_eq!(allowed.most_restrictive_index(), Some(1));
    }

    #[test]
    fn many_charges_share_states_like_few_charges() {
        let (api, login) = (Limit::per_second(5), Limit::per_second(5));
        let (api, login) = (api.build("api").expect("valid"), login.build("login").expect("valid"));
        let keys: Vec<String> = (0..MAX_COMPARED).map(|key| format!("{}", key * 7 % 10)).collect();
        let both = keys.iter().flat_map(|key| [api.charge(key.as_str()), login.charge(key.as_str())]);
        let charges: Vec<_> = both.collect();
        let expected: Vec<_> =
            charges.iter().map(|charge| charges.iter().position(|other| other.same_state(charge))).collect();
        let (indexes, count) = state_indexes(&charges);
        let seen: Vec<_> =
            indexes.iter().map(|index| indexes.iter().position(|other| other == index)).collect();
        assert_eq!(seen, expected);
        assert_eq!((count, indexes.iter().max()), (20, Some(&19)));
    }

    #[test]
    fn two_charges_on_one_key_count_twice() {
        let limit = Limit::per_second(5).build("api").expect("valid");
        let charges = [limit.charge("a").with_cost(3), limit.charge("b"), limit.charge("a").with_cost(3)];
        assert_eq!(state_indexes(&charges).0[..], [0, 1, 0]);
        let mut states = vec![State::default(); 2];
        assert!(run(&charges, &mut states).is_denied());
        let twice = run(&[limit.charge("a").with_cost(3), limit.charge("a").with_cost(2)], &mut states);
        assert_eq!((twice.is_allowed(), twice.decisions()[1].remaining()), (true, 0));
    }

    #[test]
    fn charges_on_one_key_are_retried_when_all_of_them_fit() {
        let limit = Limit::per_second(5).build("api").expect("valid");
        let mut states = vec![State::default()];
        assert!(run(&[limit.charge("a").with_cost(3)], &mut states).is_allowed());
        let denied = run(&[limit.charge("a").with_cost(3), limit.charge("a")], &mut states);
        assert_eq!(denied.retry_after(), Some(core::time::Duration::from_millis(400)), "2 of 4 are left");
        let denied = run(&[limit.charge("a").with_cost(3), limit.charge("a").with_cost(3)], &mut states);
        assert_eq!((denied.retry_after(), denied.decisions()[1].outcome()), (None, Outcome::NeverFits));
    }

    #[test]
    fn a_dated_debit_and_a_take_are_retried_when_the_debit_has_refilled() {
        let limit = Limit::per_second(5).build("api").expect("valid");
        let debit = limit.charge("a").with_cost(5).with_action(Action::Debit { at: Some(NOW) });
        let denied = run(&[debit, limit.charge("a")], &mut [State::default()]);
        assert_eq!(denied.retry_after(), Some(core::time::Duration::from_millis(200)));
    }

    #[test]
    fn a_denied_request_starts_the_clock_of_a_limit_that_became_faster() {
        let (slow, fast) = (Limit::per_hour(5), Limit::per_second(100).burst(5));
        let (slow, fast) = (slow.build("api").expect("valid"), fast.build("api").expect("valid"));
        let other = Limit::per_second(5).build("other").expect("valid");
        let mut states = vec![State::default(); 2];
        assert!(run(&[slow.charge("a").with_cost(5)], &mut states).is_allowed());
        let charges = [fast.charge("a"), other.charge("a")];
        let wait = run(&charges, &mut states).retry_after().expect("empty");
        assert_eq!(wait, core::time::Duration::from_millis(10));
        assert!(settle(&charges, &[0, 1], &mut states, NOW + wait).is_allowed());
    }

    #[test]
    fn a_denial_by_another_limit_neither_counts_nor_blocks() {
        let login = Limit::per_hour(3)
            .sliding_log()
            .count_denied()
            .block_for(core::time::Duration::from_secs(60))
            .build("login")
            .expect("valid");
        let full = Limit::per_hour(1).build("full").expect("valid");
        let mut states = vec![State::default(); 2];
        assert!(run(&[login.charge("a"), full.charge("a")], &mut states).is_allowed());
        assert!(run(&[login.charge("a"), full.charge("a")], &mut states).is_denied());
        assert_eq!(run(&[login.charge("a").with_cost(0)], &mut states).decisions()[0].remaining(), 2);
    }
}
