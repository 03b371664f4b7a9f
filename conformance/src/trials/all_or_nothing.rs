//! All charges of a request are debited or none is.

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind, Limit};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::samples::{Sample, samples};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("all_or_nothing", all_or_nothing);
    plan.each("same_key_twice", same_key_twice);
    plan.add("all_or_nothing::many_limits_of_one_entity", many_limits);
    plan.add("all_or_nothing::several_entities", several_entities);
    plan.add("all_or_nothing::a_denied_request_resets_nothing", denied_reset);
    plan.add("all_or_nothing::no_charges", no_charges);
}

/// One limit has tokens left and the other has none: nothing is debited, and the verdict names the exhausted one.
async fn all_or_nothing<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let other = Limit::per_second(1).build("other").expect("valid");
    assert!(fixture.decide(&[fixture.charge(&other, ENTITY)]).await.is_allowed());
    let before = fixture.peek(&limit).await;
    for _ in 0..3 {
        let denied = fixture
            .decide(&[fixture.charge(&limit, ENTITY).with_cost(2), fixture.charge(&other, ENTITY)])
            .await;
        assert!(denied.is_denied());
        assert_eq!(denied.most_restrictive_index(), Some(1));
        assert_eq!(denied.decisions()[0], before, "nothing was debited");
        assert_eq!(fixture.peek(&limit).await, before);
    }
    // The other way round: this limit is exhausted, and the other keeps its tokens.
    let spare = Limit::per_second(100).build("spare").expect("valid");
    fixture.exhaust(&limit).await;
    let denied = fixture.decide(&[fixture.charge(&spare, ENTITY), fixture.charge(&limit, ENTITY)]).await;
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    assert_eq!(fixture.peek(&spare).await.remaining(), 100);
}

async fn same_key_twice<S: Store>(fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    if name.contains("gap") || name.contains("smooth") {
        // The second of two charges at once is too close to the first, or waits for the cost of the first.
        let before = fixture.peek(&limit).await;
        let costs = if name.contains("gap") { [2, 3] } else { [limit.capacity() + 1, 1] };
        let charges = costs.map(|cost| fixture.charge(&limit, ENTITY).with_cost(cost));
        assert!(fixture.decide(&charges).await.is_denied());
        if !name.contains("denied_counted") {
            assert_eq!(fixture.peek(&limit).await, before, "neither is debited");
        }
        assert!(fixture.one(charges[0]).await.is_allowed(), "the first one alone passes");
        return;
    }
    let charge = fixture.charge(&limit, ENTITY);
    let twice = fixture.decide(&[charge.with_cost(2), charge.with_cost(3)]).await;
    assert!(twice.is_allowed());
    assert_eq!(
        fixture.peek(&limit).await.remaining(),
        limit.capacity() - 5,
        "the same key twice counts twice"
    );
    let over = limit.capacity() - 6;
    assert!(
        fixture.decide(&[charge.with_cost(over), charge.with_cost(2)]).await.is_denied(),
        "both together exceed the capacity"
    );
}

async fn many_limits<S: Store>(fixture: Fixture<S>) {
    let samples: Vec<_> = samples()
        .into_iter()
        .filter(|sample| sample.limit.kind() != AlgorithmKind::SmoothWarmingUp)
        .collect();
    let charges: Vec<_> = samples.iter().map(|sample| fixture.charge(&sample.limit, ENTITY)).collect();
    assert!(fixture.decide(&charges).await.is_allowed());
    let before: Vec<_> = {
        let mut before = Vec::new();
        for sample in &samples {
            before.push(fixture.peek(&sample.limit).await);
        }
        before
    };
    // One of the limits has a minimum gap, which denies the whole request.
    assert!(fixture.decide(&charges).await.is_denied());
    for (sample, before) in samples.iter().zip(before) {
        assert_eq!(fixture.peek(&sample.limit).await, before, "{}", sample.name);
    }
}

async fn several_entities<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::per_second(10).build("api").expect("valid");
    let both = |cost: u32| {
        [fixture.charge(&limit, "alice").with_cost(cost), fixture.charge(&limit, "bob").with_cost(cost)]
    };
    assert!(fixture.decide(&both(6)).await.is_allowed());
    assert!(fixture.one(fixture.charge(&limit, "alice").with_cost(3)).await.is_allowed());
    assert!(fixture.decide(&both(2)).await.is_denied(), "alice has 1 left");
    assert_eq!(fixture.one(fixture.charge(&limit, "bob").with_cost(0)).await.remaining(), 4, "bob keeps 4");
    assert!(fixture.decide(&both(1)).await.is_allowed());
}

/// A reset cannot be undone, so it happens only if all other charges pass, wherever they live.
async fn denied_reset<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::per_hour(10).build("api").expect("valid");
    let take = |entity, cost| fixture.charge(&limit, entity).with_cost(cost);
    let remaining = async |entity| fixture.one(take(entity, 0)).await.remaining();
    let reset = take("alice", 1).with_action(Action::Reset);
    assert!(fixture.decide(&[take("alice", 4), take("bob", 10)]).await.is_allowed());
    // Several keys, so that some of them live in another place than the reset.
    for charges in [[reset, take("carol", 1), take("bob", 1)], [take("bob", 1), take("dave", 1), reset]] {
        assert!(fixture.decide(&charges).await.is_denied(), "bob has nothing left");
        assert_eq!(remaining("alice").await, 6, "alice is not reset");
        assert_eq!((remaining("carol").await, remaining("dave").await), (10, 10));
    }
    assert!(fixture.decide(&[reset, take("carol", 3)]).await.is_allowed());
    assert_eq!((remaining("alice").await, remaining("carol").await), (10, 7));
}

async fn no_charges<S: Store>(fixture: Fixture<S>) {
    let verdict = fixture.decide(&[]).await;
    assert!(verdict.is_allowed() && verdict.most_restrictive().is_none());
}
