//! A dropped permit releases its slot, at once or in the background ([`Store::decide_detached`]).

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Key, Limit, Limiter};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};

/// Far longer than a release takes. It bounds how long a trial waits for a store that never releases.
const RELEASED_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.add("permits::a_dropped_permit_releases_its_slot", dropped);
}

/// The trial's time stands still, so the lease does not expire: only the release can free the slot.
async fn dropped<S: Store + 'static>(fixture: Fixture<S>) {
    let limit = Limit::concurrent(1).lease(Duration::from_secs(600)).build("permits").expect("valid");
    let limiter = Arc::new(Limiter::with_clock(Arc::clone(fixture.store()), fixture.now()));
    let key = Key::new(fixture.namespace(), ENTITY);
    for round in 0..3 {
        let held = limiter.acquire(&limit, key).await.expect("the store decides");
        assert!(held.is_held(), "round {round}: the slot is free");
        let denied = limiter.acquire(&limit, key).await.expect("the store decides");
        assert!(!denied.is_held(), "round {round}: the only slot is taken");
        drop((held, denied));
        let released = tokio::time::timeout(RELEASED_WITHIN, async {
            while fixture.peek(&limit).await.is_denied() {
                pause().await;
            }
        });
        assert!(released.await.is_ok(), "round {round}: the slot of a dropped permit was not released");
    }
}

#[expect(clippy::disallowed_methods, reason = "a store releases in the background, in real time")]
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}
