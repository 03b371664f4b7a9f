//! An unconditional debit may exceed the balance; the debt is repaid as time passes.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("debit", debit);
    plan.each("debit_counts_at_its_instant", dated);
}

const NOW: Action = Action::Debit { at: None };

async fn debit<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, NOW).await;
    }
    let whole = limit.capacity();
    let debit = fixture.charge(&limit, ENTITY).with_cost(3 * whole).with_action(NOW);
    let overdrawn =
        fixture.one_agrees(&mut Pure::default(), debit, "a debit of more than the capacity").await;
    assert!(overdrawn.is_allowed() && overdrawn.remaining() == 0, "{overdrawn:?}");
    let denied = fixture.peek(&limit).await;
    assert!(denied.is_denied(), "{denied:?}");
    let wait = denied.retry_after().expect("a denial has a retry_after");
    fixture.advance(wait.saturating_sub(Duration::from_nanos(1)));
    assert!(fixture.peek(&limit).await.is_denied(), "repaid before {wait:?}");
    fixture.advance(Duration::from_nanos(1));
    assert!(fixture.peek(&limit).await.is_allowed(), "not repaid after {wait:?}");
}

async fn dated<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let then = Action::Debit { at: Some(fixture.now()) };
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, then).await;
    }
    let mut pure = Pure::default();
    for span in [300, 500, 900, 90_000] {
        fixture.advance(Duration::from_millis(span));
        let late = [fixture.charge(&limit, ENTITY).with_cost(2).with_action(then)];
        let _ = fixture.agrees(&mut pure, &late, &format!("{span} ms later")).await;
    }
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        // Debits of that long ago are refilled, or outside of the window.
        assert_eq!(fixture.peek(&limit).await.remaining(), limit.capacity());
    }
}
