//! Concurrency limits: slots are held, renewed and released, and a lease that is not renewed expires.

use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, AlgorithmKind, LeaseId, Limit, Request};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("leases", leases);
    plan.add("leases::the_slot_of_a_crashed_holder_expires", crashed);
    plan.add("leases::acquiring_twice_holds_one_slot", twice);
    plan.add("leases::beside_a_rate", beside_a_rate);
    plan.add("leases::a_replaced_lease_counts_until_its_new_expiry", replaced);
}

const ACQUIRE: Action = Action::Take { max_wait: None };

/// Leases work on concurrency limits, and are refused on all others.
async fn leases<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if limit.kind() != AlgorithmKind::Concurrency {
        fixture.refused(&limit, Action::Renew).await;
        return fixture.refused(&limit, Action::Release).await;
    }
    let lease =
        |id: u128, action| fixture.charge(&limit, ENTITY).with_lease(LeaseId::new(id)).with_action(action);
    for id in 1..=10 {
        assert!(fixture.one(lease(id, ACQUIRE)).await.is_allowed());
    }
    assert!(fixture.one(lease(11, ACQUIRE)).await.is_denied());
    assert_eq!(fixture.one(lease(99, Action::Release)).await.granted(), 0, "an unknown lease holds no slot");
    assert_eq!(fixture.one(lease(4, Action::Release)).await.granted(), 1);
    assert_eq!(fixture.one(lease(4, Action::Release)).await.granted(), 0);
    assert!(fixture.one(lease(11, ACQUIRE)).await.is_allowed());
    assert!(fixture.one(lease(4, Action::Renew)).await.is_denied());
}

async fn crashed<S: Store>(mut fixture: Fixture<S>) {
    let limit = Limit::concurrent(20).lease(Duration::from_secs(30)).build("flight").expect("valid");
    let holders: Vec<_> = (1..=20).map(LeaseId::new).collect();
    for holder in &holders {
        assert!(fixture.one(fixture.charge(&limit, ENTITY).with_lease(*holder)).await.is_allowed());
    }
    fixture.advance(Duration::from_secs(20));
    for holder in &holders[1..] {
        let renewal = fixture.charge(&limit, ENTITY).with_lease(*holder).with_action(Action::Renew);
        assert!(fixture.one(renewal).await.is_allowed());
    }
    let waiting = fixture.charge(&limit, ENTITY).with_lease(LeaseId::new(21));
    let denied = fixture.one(waiting).await;
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
    let mut later = fixture.clone();
    later.advance(Duration::from_secs(10));
    assert!(later.one(waiting).await.is_allowed(), "the first holder's slot is free");
    assert_eq!(later.peek(&limit).await.remaining(), 0);
}

async fn twice<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::concurrent(2).build("flight").expect("valid");
    let lease = fixture.charge(&limit, ENTITY).with_lease(LeaseId::new(7));
    for _ in 0..5 {
        assert!(fixture.one(lease).await.is_allowed());
    }
    assert_eq!(fixture.peek(&limit).await.remaining(), 1);
}

/// A slot and a token are taken together or not at all.
async fn beside_a_rate<S: Store>(fixture: Fixture<S>) {
    let flight = Limit::concurrent(1).build("flight").expect("valid");
    let rate = Limit::per_hour(5).build("rate").expect("valid");
    let both = |id: u128| {
        [fixture.charge(&rate, ENTITY), fixture.charge(&flight, ENTITY).with_lease(LeaseId::new(id))]
    };
    assert!(fixture.decide(&both(1)).await.is_allowed());
    assert!(fixture.decide(&both(2)).await.is_denied());
    assert_eq!(fixture.peek(&rate).await.remaining(), 4, "no slot was free, so no token was taken");
    let release = fixture.charge(&flight, ENTITY).with_lease(LeaseId::new(1)).with_action(Action::Release);
    assert!(fixture.one(release).await.is_allowed());
    assert!(fixture.decide(&both(2)).await.is_allowed());
}

/// A batch acquires a lease again and then asks for more slots than are free: when those are depends on the new expiry.
async fn replaced<S: Store>(mut fixture: Fixture<S>) {
    let limit = Limit::concurrent(10).lease(Duration::from_secs(30)).build("flight").expect("valid");
    for (id, cost) in [(1, 6), (2, 2)] {
        let charge = fixture.charge(&limit, ENTITY).with_lease(LeaseId::new(id)).with_cost(cost);
        assert!(fixture.one(charge).await.is_allowed());
    }
    fixture.advance(Duration::from_secs(10));
    let charge = |id, cost| fixture.charge(&limit, ENTITY).with_lease(LeaseId::new(id)).with_cost(cost);
    let (again, more) = ([charge(1, 6)], [charge(3, 3), charge(4, 3)]);
    let runs = [Run::new(Request::new(&again), 1), Run::new(Request::new(&more), 1)];
    let results = fixture.store().decide_batch(&runs, fixture.now()).await;
    let verdicts: Vec<_> =
        results.into_iter().flat_map(|run| run.expect("no error").into_verdicts()).collect();
    assert!(verdicts[0].is_allowed());
    assert_eq!(
        verdicts[1].retry_after(),
        Some(Duration::from_secs(30)),
        "2 slots are free, and 4 after 20 s"
    );
}
