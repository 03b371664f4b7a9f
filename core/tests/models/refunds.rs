//! Refunds at the instant of their debit: nothing of the debit remains.

use proptest::prelude::*;
use tollgate_core::{Action, AlgorithmKind, Limit};

use super::limits::{build, builders};
use super::trace::{cases, state_after, steps};

proptest! {
    #![proptest_config(cases(400))]

    /// Whatever was taken or debited, also more than the capacity, is refunded in full at its own instant.
    #[test]
    fn a_refund_at_its_own_instant_leaves_nothing_of_the_debit(
        limit in builders(),
        steps in steps(12),
        cost in 1..20_u32,
        unconditional: bool,
    ) {
        let limit = build(limit);
        // Leases are released instead, a limiter that warms up refunds its debt only, and a minimum gap counts from the
        // newest entry that is left.
        let is_exact = !matches!(limit.kind(), AlgorithmKind::Concurrency | AlgorithmKind::SmoothWarmingUp);
        if !is_exact || limit.parameters().min_gap > 0 {
            return Ok(());
        }
        let (mut state, now) = state_after(&limit, &steps);
        let peek = limit.charge("k").with_cost(0);
        let before = state.clone().apply(&peek, now);
        let charge = limit.charge("k").with_cost(cost);
        let debit = if unconditional { charge.with_action(Action::Debit { at: Some(now) }) } else { charge };
        let granted = state.apply(&debit, now).granted();
        if granted == 0 {
            // A denial may count, too, and is not refunded.
            return Ok(());
        }
        let refund = charge.with_cost(granted).with_action(Action::Refund { at: Some(now) });
        prop_assert_eq!(state.apply(&refund, now).granted(), granted);
        prop_assert_eq!(state.apply(&peek, now), before);
    }
}

/// A log in debt keeps about as many entries as its count, and admits as if it kept all of them.
#[test]
fn debits_do_not_make_a_log_grow() {
    use std::time::Duration;
    use tollgate_core::Time;
    use tollgate_core::store::State;

    let day = Duration::from_secs(86_400);
    let limit = build(Limit::per(5, day).sliding_log());
    let (mut state, start) = (State::default(), Time::from_secs(1_790_000_000));
    let debit = limit.charge("k").with_action(Action::Debit { at: None });
    for second in 0..10_000 {
        assert!(state.apply(&debit, start + Duration::from_secs(second)).is_allowed());
    }
    let entries = state.snapshot(&limit).words().len() / 2;
    assert!(entries <= 5 + 64, "{entries} entries");
    let now = start + Duration::from_secs(9_999);
    assert_eq!(state.clone().apply(&limit.charge("k").with_cost(0), now).debt(), 9_995);
    // One passes once all but four have expired: the fifth last was debited four seconds ago.
    let wait = Duration::from_secs(86_400 - 4);
    let denied = state.apply(&limit.charge("k"), now);
    assert_eq!(denied.retry_after(), Some(wait));
    assert_eq!(state.apply(&limit.charge("k"), now + wait).remaining(), 0);
}
