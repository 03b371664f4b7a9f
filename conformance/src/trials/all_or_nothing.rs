//! All charges of a request are debited or none is.

use tollgate_core::store::Store;
use tollgate_core::{AlgorithmKind, Limit};

use super::Plan;
use crate::samples::{Sample, samples};
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("all_or_nothing", all_or_nothing);
    plan.each("same_key_twice", same_key_twice);
    plan.add("all_or_nothing::many_limits_of_one_entity", many_limits);
    plan.add("all_or_nothing::several_entities", several_entities);
    plan.add("all_or_nothing::no_charges", no_charges);
}

/// A limit with room beside one without: nothing is debited, and the tight one is named.
async fn all_or_nothing<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let other = Limit::per_second(1).build("other").expect("valid");
    assert!(stand.decide(&[stand.charge(&other, WHO)]).await.is_allowed());
    let before = stand.peek(&limit).await;
    for _ in 0..3 {
        let denied = stand.decide(&[stand.charge(&limit, WHO).with_cost(2), stand.charge(&other, WHO)]).await;
        assert!(denied.is_denied());
        assert_eq!(denied.most_restrictive_index(), Some(1));
        assert_eq!(denied.decisions()[0], before, "it had room, and nothing was debited");
        assert_eq!(stand.peek(&limit).await, before);
    }
    // The other way round: exhaust this one, and the other keeps what it has.
    let spare = Limit::per_second(100).build("spare").expect("valid");
    stand.exhaust(&limit).await;
    let denied = stand.decide(&[stand.charge(&spare, WHO), stand.charge(&limit, WHO)]).await;
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    assert_eq!(stand.peek(&spare).await.remaining(), 100);
}

async fn same_key_twice<S: Store>(stand: Stand<S>, Sample { limit, name, .. }: Sample) {
    if name.contains("gap") || name.contains("smooth") {
        // The second of two at once is too close to the first, or has to wait until it is paid for.
        let before = stand.peek(&limit).await;
        let costs = if name.contains("gap") { [2, 3] } else { [limit.capacity() + 1, 1] };
        let charges = costs.map(|cost| stand.charge(&limit, WHO).with_cost(cost));
        assert!(stand.decide(&charges).await.is_denied());
        if !name.contains("denied_counted") {
            assert_eq!(stand.peek(&limit).await, before, "so neither is debited");
        }
        assert!(stand.one(charges[0]).await.is_allowed(), "alone the first passes");
        return;
    }
    let charge = stand.charge(&limit, WHO);
    let twice = stand.decide(&[charge.with_cost(2), charge.with_cost(3)]).await;
    assert!(twice.is_allowed());
    assert_eq!(stand.peek(&limit).await.remaining(), limit.capacity() - 5, "the same key twice counts twice");
    let over = limit.capacity() - 6;
    assert!(
        stand.decide(&[charge.with_cost(over), charge.with_cost(2)]).await.is_denied(),
        "together they do not fit"
    );
}

async fn many_limits<S: Store>(stand: Stand<S>) {
    let samples: Vec<_> = samples()
        .into_iter()
        .filter(|sample| sample.limit.kind() != AlgorithmKind::SmoothWarmingUp)
        .collect();
    let charges: Vec<_> = samples.iter().map(|sample| stand.charge(&sample.limit, WHO)).collect();
    assert!(stand.decide(&charges).await.is_allowed());
    let before: Vec<_> = {
        let mut before = Vec::new();
        for sample in &samples {
            before.push(stand.peek(&sample.limit).await);
        }
        before
    };
    // The gap of one of them denies them all.
    assert!(stand.decide(&charges).await.is_denied());
    for (sample, before) in samples.iter().zip(before) {
        assert_eq!(stand.peek(&sample.limit).await, before, "{}", sample.name);
    }
}

async fn several_entities<S: Store>(stand: Stand<S>) {
    let limit = Limit::per_second(10).build("api").expect("valid");
    let both = |cost: u32| {
        [stand.charge(&limit, "alice").with_cost(cost), stand.charge(&limit, "bob").with_cost(cost)]
    };
    assert!(stand.decide(&both(6)).await.is_allowed());
    assert!(stand.one(stand.charge(&limit, "alice").with_cost(3)).await.is_allowed());
    assert!(stand.decide(&both(2)).await.is_denied(), "alice has 1 left");
    assert_eq!(stand.one(stand.charge(&limit, "bob").with_cost(0)).await.remaining(), 4, "bob keeps his");
    assert!(stand.decide(&both(1)).await.is_allowed());
}

async fn no_charges<S: Store>(stand: Stand<S>) {
    let verdict = stand.decide(&[]).await;
    assert!(verdict.is_allowed() && verdict.most_restrictive().is_none());
}
