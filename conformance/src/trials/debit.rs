//! An unconditional debit may go below zero, and time repays it.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("debit", debit);
    plan.each("debit_belongs_to_its_instant", belongs);
}

const NOW: Action = Action::Debit { at: None };

async fn debit<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return stand.refused(&limit, NOW).await;
    }
    let whole = limit.capacity();
    let overdrawn = stand.act(&limit, 3 * whole, NOW).await;
    assert!(overdrawn.is_allowed() && overdrawn.remaining() == 0, "{overdrawn:?}");
    let mut pure = Pure::default();
    let owing = [stand.charge(&limit, WHO).with_cost(3 * whole).with_action(NOW)];
    assert_eq!(pure.decide(&owing, stand.now()).decisions()[0], overdrawn);
    let denied = stand.peek(&limit).await;
    assert!(denied.is_denied(), "{denied:?}");
    let wait = denied.retry_after().expect("time repays it");
    stand.advance(wait.saturating_sub(Duration::from_nanos(1)));
    assert!(stand.peek(&limit).await.is_denied(), "repaid no sooner than after {wait:?}");
    stand.advance(Duration::from_nanos(1));
    assert!(stand.peek(&limit).await.is_allowed(), "repaid after {wait:?}");
}

async fn belongs<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    let then = Action::Debit { at: Some(stand.now()) };
    if limit.kind() == AlgorithmKind::Concurrency {
        return stand.refused(&limit, then).await;
    }
    let mut pure = Pure::default();
    for span in [300, 500, 900, 90_000] {
        stand.advance(Duration::from_millis(span));
        let late = [stand.charge(&limit, WHO).with_cost(2).with_action(then)];
        assert_eq!(stand.decide(&late).await, pure.decide(&late, stand.now()), "{span} ms later");
    }
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        // Everything that long ago has been refilled or is out of sight.
        assert_eq!(stand.peek(&limit).await.remaining(), limit.capacity());
    }
}
