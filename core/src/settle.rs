//! The pure function over whole requests: all charges are debited or none is.

use alloc::collections::BTreeMap;

use smallvec::SmallVec;

use crate::charge::{Action, Ask, Charge, LeaseId};
use crate::decision::{Decision, Outcome, RawDecision, Verdict};
use crate::state::State;
use crate::time::Time;

/// Decides a request at `now`. `states[slots[i]]` is the state of the charge `i`; charges with the same
/// limit and key share one. What every store does with a request, this function defines.
///
/// # Panics
///
/// If there are fewer slots than charges, or a slot names no state.
pub fn settle(charges: &[Charge<'_>], slots: &[usize], states: &mut [State], now: Time) -> Verdict {
    if let [charge] = charges {
        return Verdict::one(states[slots[0]].apply(charge, now), now);
    }
    let before: SmallVec<[State; 4]> = states.iter().cloned().collect();
    let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
    for (charge, slot) in charges.iter().zip(slots) {
        decisions.push(states[*slot].answer(charge.limit, now, &charge.ask));
    }
    if decisions.iter().any(Decision::is_denied) {
        states.clone_from_slice(&before);
        for ((charge, slot), decision) in charges.iter().zip(slots).zip(&mut decisions) {
            if decision.is_allowed() {
                // It had room, but nothing is debited: say what is there.
                let there = before[*slot].clone().answer(charge.limit, now, &LOOK).raw();
                let wait = decision.raw().wait;
                *decision = RawDecision { outcome: Outcome::Allowed, granted: 0, wait, ..there }.into();
            } else {
                *decision = states[*slot].denied(charge.limit, now, &charge.ask, *decision);
            }
        }
    }
    Verdict::new(decisions, now)
}

const LOOK: Ask = Ask { cost: 0, action: Action::Take { max_wait: None }, lease: LeaseId::ANONYMOUS };

/// Up to so many charges are compared each with all before it: nothing is allocated then.
const FEW: usize = 16;

/// For each charge, which state is its own: charges with the same limit and key share one. Also says how
/// many states there are.
pub fn slots(charges: &[Charge<'_>]) -> (SmallVec<[usize; 4]>, usize) {
    if charges.len() > FEW {
        return slots_of_many(charges);
    }
    let mut slots: SmallVec<[usize; 4]> = SmallVec::new();
    let mut states = 0;
    for (index, charge) in charges.iter().enumerate() {
        let same = charges[..index].iter().position(|earlier| earlier.same_state(charge));
        slots.push(same.map_or(states, |earlier| slots[earlier]));
        states += usize::from(same.is_none());
    }
    (slots, states)
}

fn slots_of_many(charges: &[Charge<'_>]) -> (SmallVec<[usize; 4]>, usize) {
    let mut known = BTreeMap::new();
    let mut slots = SmallVec::new();
    for charge in charges {
        let next = known.len();
        slots.push(*known.entry((charge.key(), charge.limit().id())).or_insert(next));
    }
    (slots, known.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;
    use alloc::{format, string::String, vec, vec::Vec};

    const NOW: Time = Time::from_secs(1_790_000_000);

    fn run(charges: &[Charge<'_>], states: &mut [State]) -> Verdict {
        let (slots, _) = slots(charges);
        settle(charges, &slots, states, NOW)
    }

    #[test]
    fn all_or_nothing() {
        let wide = Limit::per_second(10).build("wide").expect("valid");
        let narrow = Limit::per_second(2).build("narrow").expect("valid");
        let mut states = vec![State::default(); 2];
        let denied = run(&[wide.charge("a").with_cost(5), narrow.charge("a").with_cost(3)], &mut states);
        assert!(denied.is_denied());
        assert_eq!(denied.most_restrictive_index(), Some(1));
        assert_eq!(denied.decisions()[0].remaining(), 10, "nothing was debited");
        let allowed = run(&[wide.charge("a").with_cost(5), narrow.charge("a").with_cost(2)], &mut states);
        assert!(allowed.is_allowed());
        assert_eq!(allowed.most_restrictive_index(), Some(1));
    }

    #[test]
    fn many_charges_share_states_as_few_do() {
        let (api, login) = (Limit::per_second(5), Limit::per_second(5));
        let (api, login) = (api.build("api").expect("valid"), login.build("login").expect("valid"));
        let keys: Vec<String> = (0..FEW).map(|key| format!("{}", key * 7 % 10)).collect();
        let both = keys.iter().flat_map(|key| [api.charge(key.as_str()), login.charge(key.as_str())]);
        let charges: Vec<_> = both.collect();
        let few: Vec<_> =
            charges.iter().map(|charge| charges.iter().position(|it| it.same_state(charge))).collect();
        let (slots, count) = slots(&charges);
        let many: Vec<_> = slots.iter().map(|slot| slots.iter().position(|it| it == slot)).collect();
        assert_eq!(many, few);
        assert_eq!((count, slots.iter().max()), (20, Some(&19)));
    }

    #[test]
    fn the_same_key_twice_counts_twice() {
        let limit = Limit::per_second(5).build("api").expect("valid");
        let charges = [limit.charge("a").with_cost(3), limit.charge("b"), limit.charge("a").with_cost(3)];
        assert_eq!(slots(&charges).0[..], [0, 1, 0]);
        let mut states = vec![State::default(); 2];
        assert!(run(&charges, &mut states).is_denied());
        let twice = run(&[limit.charge("a").with_cost(3), limit.charge("a").with_cost(2)], &mut states);
        assert_eq!((twice.is_allowed(), twice.decisions()[1].remaining()), (true, 0));
    }

    #[test]
    fn a_denial_by_another_charge_neither_counts_nor_blocks() {
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
