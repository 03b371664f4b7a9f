//! Work in flight: places are held, renewed, released, and come back from those who crashed.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind, LeaseId, Limit};

use super::Plan;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("leases", kinds);
    plan.add("leases::a_crashed_holder_frees_its_place", crashed);
    plan.add("leases::asking_twice_holds_once", twice);
    plan.add("leases::beside_a_rate", beside_a_rate);
}

const ACQUIRE: Action = Action::Take { max_wait: None };

/// Where there are leases they work; everywhere else they are refused.
async fn kinds<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    if limit.kind() != AlgorithmKind::Concurrency {
        stand.refused(&limit, Action::Renew).await;
        return stand.refused(&limit, Action::Release).await;
    }
    let lease = |id: u128, action| stand.charge(&limit, WHO).with_lease(LeaseId::new(id)).with_action(action);
    for id in 1..=10 {
        assert!(stand.one(lease(id, ACQUIRE)).await.is_allowed());
    }
    assert!(stand.one(lease(11, ACQUIRE)).await.is_denied());
    assert_eq!(stand.one(lease(99, Action::Release)).await.granted(), 0, "nobody ends another's lease");
    assert_eq!(stand.one(lease(4, Action::Release)).await.granted(), 1);
    assert_eq!(stand.one(lease(4, Action::Release)).await.granted(), 0);
    assert!(stand.one(lease(11, ACQUIRE)).await.is_allowed());
    assert!(stand.one(lease(4, Action::Renew)).await.is_denied());
}

async fn crashed<S: Store>(mut stand: Stand<S>) {
    let limit = Limit::concurrent(20).lease(Duration::from_secs(30)).build("flight").expect("valid");
    let holders: Vec<_> = (1..=20).map(LeaseId::new).collect();
    for holder in &holders {
        assert!(stand.one(stand.charge(&limit, WHO).with_lease(*holder)).await.is_allowed());
    }
    stand.advance(Duration::from_secs(20));
    for holder in &holders[1..] {
        assert!(
            stand
                .one(stand.charge(&limit, WHO).with_lease(*holder).with_action(Action::Renew))
                .await
                .is_allowed()
        );
    }
    let waiting = stand.charge(&limit, WHO).with_lease(LeaseId::new(21));
    let denied = stand.one(waiting).await;
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
    let mut later = stand.clone();
    later.advance(Duration::from_secs(10));
    assert!(later.one(waiting).await.is_allowed(), "the first holder's place is back");
    assert_eq!(later.peek(&limit).await.remaining(), 0);
}

async fn twice<S: Store>(stand: Stand<S>) {
    let limit = Limit::concurrent(2).build("flight").expect("valid");
    let mine = stand.charge(&limit, WHO).with_lease(LeaseId::new(7));
    for _ in 0..5 {
        assert!(stand.one(mine).await.is_allowed());
    }
    assert_eq!(stand.peek(&limit).await.remaining(), 1);
}

/// A place and a token, together or not at all.
async fn beside_a_rate<S: Store>(stand: Stand<S>) {
    let flight = Limit::concurrent(1).build("flight").expect("valid");
    let rate = Limit::per_hour(5).build("rate").expect("valid");
    let ask = |id: u128| [stand.charge(&rate, WHO), stand.charge(&flight, WHO).with_lease(LeaseId::new(id))];
    assert!(stand.decide(&ask(1)).await.is_allowed());
    assert!(stand.decide(&ask(2)).await.is_denied());
    assert_eq!(stand.peek(&rate).await.remaining(), 4, "the place was taken, so no token was");
    let release = stand.charge(&flight, WHO).with_lease(LeaseId::new(1)).with_action(Action::Release);
    assert!(stand.one(release).await.is_allowed());
    assert!(stand.decide(&ask(2)).await.is_allowed());
}
