//! Takes as many units as there are, in one step.

use tollgate_core::Action;
use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("take_up_to", take_up_to);
}

async fn take_up_to<S: Store>(fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    let some = fixture.act(&limit, whole - 3, Action::TakeUpTo).await;
    assert_eq!((some.is_allowed(), some.granted()), (true, whole - 3));
    let rest = fixture.act(&limit, whole, Action::TakeUpTo).await;
    if !name.contains("smooth") && !name.contains("gap") {
        assert_eq!((rest.is_allowed(), rest.granted(), rest.remaining()), (true, 3, 0));
        let none = fixture.act(&limit, whole, Action::TakeUpTo).await;
        assert_eq!((none.is_denied(), none.granted()), (true, 0));
        assert!(none.retry_after().is_some(), "{none:?}");
    }
    let mut pure = Pure::default();
    for most in [3, 0, whole * 2, 1, whole] {
        let charge = [fixture.charge(&limit, "another").with_cost(most).with_action(Action::TakeUpTo)];
        let _ = fixture.agrees(&mut pure, &charge, &format!("up to {most}")).await;
    }
}
