//! Keys that pass or don't.

use tollgate_core::store::Store;
use tollgate_core::{Action, Key, LeaseId, Limit, Outcome, Request, Source};
use tollgate_resilience::KeyList;

use crate::recorded::{Call, NOW, asked, ready};
use crate::{BOTH, EVERY_WAY, limit, switched};

#[test]
fn a_denied_key_is_barred_and_the_store_is_not_asked() {
    for ask in EVERY_WAY {
        let (store, api) = (switched(), limit("api", 10));
        store.switches().deny("bad");
        let told = ask(&store, &api.charge("bad"));
        assert_eq!((told.outcome(), told.source()), (Outcome::DenyListed, Source::Switch));
        assert_eq!((told.retry_after(), store.store().calls()), (None, vec![]));
        assert_eq!(ask(&store, &api.charge("good")).source(), Source::Store);
        store.switches().unlist("bad");
        assert!(ask(&store, &api.charge("bad")).is_allowed());
    }
}

#[test]
fn one_denied_key_denies_the_whole_request() {
    for ask in BOTH {
        let (store, api, daily) = (switched(), limit("api", 10), limit("daily", 10));
        store.switches().deny("bad");
        store.switches().shadow("daily");
        let verdict = ask(&store, &[api.charge("good"), api.charge("bad"), daily.charge("good")]);
        assert_eq!((verdict.is_denied(), verdict.most_restrictive_index()), (true, Some(1)));
        for other in [0, 2] {
            let told = verdict.decisions()[other];
            assert_eq!((told.is_allowed(), told.granted(), told.source()), (true, 0, Source::Switch));
        }
        assert_eq!((store.store().calls(), verdict.decided_at()), (vec![], NOW));
        assert_eq!(store.switches().shadow_report("daily").map(|report| report.evaluated), Some(0));
    }
}

#[test]
fn the_kill_switch_does_not_empty_the_list() {
    for ask in EVERY_WAY {
        let (store, api) = (switched(), limit("api", 10));
        store.switches().deny("bad");
        store.switches().all_off();
        store.switches().off("api");
        assert_eq!(ask(&store, &api.charge("bad")).outcome(), Outcome::DenyListed);
    }
}

#[test]
fn an_allowed_key_passes_and_the_store_is_not_asked() {
    for ask in EVERY_WAY {
        let (store, api) = (switched(), limit("api", 1));
        store.switches().allow("good");
        for _ in 0..5 {
            let told = ask(&store, &api.charge("good"));
            assert_eq!((told.is_allowed(), told.granted(), told.source()), (true, 1, Source::Switch));
        }
        assert_eq!(store.store().calls(), vec![]);
        assert!(ask(&store, &api.charge("other")).is_allowed());
        assert!(ask(&store, &api.charge("other")).is_denied());
    }
}

#[test]
fn listing_a_key_moves_it() {
    let store = switched();
    let switches = store.switches();
    switches.allow("a");
    assert_eq!(switches.listed("a"), Some(KeyList::Allowed));
    switches.deny("a");
    assert_eq!((switches.listed("a"), switches.state().allowed), (Some(KeyList::Denied), 0));
    switches.allow("a");
    assert_eq!((switches.listed("a"), switches.state().denied), (Some(KeyList::Allowed), 0));
    switches.unlist("a");
    assert_eq!((switches.listed("a"), switches.state().allowed), (None, 0));
}

#[test]
fn keys_are_told_apart_by_namespace() {
    let (store, api) = (switched(), limit("api", 10));
    let told = |key| EVERY_WAY[0](&store, &api.charge(key)).is_denied();
    // A list of one is looked through, a longer one is looked up.
    for listed in [Key::new("ten", "ant"), Key::new("x", "y")] {
        store.switches().deny(listed);
        assert!(told(Key::new("ten", "ant")));
        for other in
            [("", "ant"), ("other", "ant"), ("ten", ""), ("", "tenant"), ("tenant", ""), ("tena", "nt")]
        {
            assert!(!told(Key::new(other.0, other.1)), "{other:?}");
        }
    }
}

#[test]
fn lists_are_replaced_in_any_order_and_denial_wins() {
    let (store, api) = (switched(), limit("api", 10));
    let switches = store.switches();
    switches.allow("old friend");
    switches.deny("old foe");
    switches.set_denied(["foe", "both"]);
    switches.set_allowed(["friend".to_owned(), "both".to_owned()].iter());
    assert_eq!(switches.listed("foe"), Some(KeyList::Denied));
    assert_eq!(switches.listed("friend"), Some(KeyList::Allowed));
    assert_eq!(switches.listed("both"), Some(KeyList::Denied));
    assert_eq!((switches.listed("old friend"), switches.listed("old foe")), (None, None));
    assert_eq!((switches.state().allowed, switches.state().denied), (2, 2));
    assert!(EVERY_WAY[0](&store, &api.charge("both")).is_denied());
    switches.set_denied(std::iter::empty::<&str>());
    assert!(EVERY_WAY[0](&store, &api.charge("both")).is_allowed());
}

#[test]
fn a_denied_key_can_still_end_what_it_began() {
    let (store, flight) = (switched(), Limit::concurrent(1).build("flight").expect("valid"));
    let (mine, api) = (LeaseId::new(7), limit("api", 10));
    let place = flight.charge("all").with_lease(mine);
    assert!(BOTH[0](&store, &[place, api.charge("bad")]).is_allowed());
    store.switches().deny("bad");
    let _ = store.store().calls();
    let ended =
        [place.with_action(Action::Release), api.charge("bad").with_action(Action::Refund { at: None })];
    assert!(BOTH[0](&store, &ended).is_allowed());
    assert_eq!(store.store().calls(), [Call::Request(asked(["flight", "api"]))]);
    assert_eq!(store.store().left(&flight, "all"), 1);
    for action in [Action::Renew, Action::TakeUpTo, Action::Debit { at: None }] {
        assert!(BOTH[0](&store, &[flight.charge("bad").with_action(action)]).is_denied(), "{action:?}");
    }
}

#[test]
fn nothing_is_done_detached_for_a_denied_key() {
    let (store, api) = (switched(), limit("api", 10));
    store.switches().deny("bad");
    store.decide_detached(Request::new(&[api.charge("good"), api.charge("bad")]), NOW);
    assert_eq!(store.store().calls(), vec![]);
    let exported = ready(store.export(&api, "bad".into(), NOW)).expect("answered");
    assert_eq!(exported.state, None);
}
