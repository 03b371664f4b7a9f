//! The allow list and the deny list.

use tollgate_core::store::Store;
use tollgate_core::{Action, Key, LeaseId, Limit, Outcome, Request, Source};
use tollgate_resilience::{KeyList, Switched};

use crate::recording::{Call, NOW, ready, requested};
use crate::{DECIDE, DECIDE_ONE, limit, switched};

#[test]
fn a_deny_listed_key_is_denied_without_calling_the_store() {
    for decide in DECIDE_ONE {
        let (store, api) = (switched(), limit("api", 10));
        store.switches().deny("bad");
        let decision = decide(&store, &api.charge("bad"));
        assert_eq!((decision.outcome(), decision.source()), (Outcome::DenyListed, Source::Switch));
        assert_eq!((decision.retry_after(), store.store().calls()), (None, vec![]));
        assert_eq!(decide(&store, &api.charge("good")).source(), Source::Store);
        store.switches().unlist("bad");
        assert!(decide(&store, &api.charge("bad")).is_allowed());
    }
}

#[test]
fn one_deny_listed_key_denies_the_whole_request() {
    for decide in DECIDE {
        let (store, api, daily) = (switched(), limit("api", 10), limit("daily", 10));
        store.switches().deny("bad");
        store.switches().shadow("daily");
        let verdict = decide(&store, &[api.charge("good"), api.charge("bad"), daily.charge("good")]);
        assert_eq!((verdict.is_denied(), verdict.most_restrictive_index()), (true, Some(1)));
        for other in [0, 2] {
            let decision = verdict.decisions()[other];
            assert_eq!(
                (decision.is_allowed(), decision.granted(), decision.source()),
                (true, 0, Source::Switch)
            );
        }
        assert_eq!((store.store().calls(), verdict.decided_at()), (vec![], NOW));
        assert_eq!(store.stats().shadow["daily"].evaluated, 0);
    }
}

#[test]
fn the_kill_switch_keeps_the_deny_list() {
    for decide in DECIDE_ONE {
        let (store, api) = (switched(), limit("api", 10));
        store.switches().deny("bad");
        store.switches().all_off();
        store.switches().off("api");
        assert_eq!(decide(&store, &api.charge("bad")).outcome(), Outcome::DenyListed);
    }
}

#[test]
fn an_allow_listed_key_passes_without_calling_the_store() {
    for decide in DECIDE_ONE {
        let (store, api) = (switched(), limit("api", 1));
        store.switches().allow("good");
        for _ in 0..5 {
            let decision = decide(&store, &api.charge("good"));
            assert_eq!(
                (decision.is_allowed(), decision.granted(), decision.source()),
                (true, 1, Source::Switch)
            );
        }
        assert_eq!(store.store().calls(), vec![]);
        assert!(decide(&store, &api.charge("other")).is_allowed());
        assert!(decide(&store, &api.charge("other")).is_denied());
    }
}

#[test]
fn listing_a_key_moves_it_between_the_lists() {
    let store = switched();
    let switches = store.switches();
    switches.allow("a");
    assert_eq!(switches.list_of("a"), Some(KeyList::Allow));
    switches.deny("a");
    assert_eq!((switches.list_of("a"), switches.state().allow_listed), (Some(KeyList::Deny), 0));
    switches.allow("a");
    assert_eq!((switches.list_of("a"), switches.state().deny_listed), (Some(KeyList::Allow), 0));
    switches.unlist("a");
    assert_eq!((switches.list_of("a"), switches.state().allow_listed), (None, 0));
}

#[test]
fn keys_of_different_namespaces_are_different() {
    let (store, api) = (switched(), limit("api", 10));
    let is_denied = |key| DECIDE_ONE[0](&store, &api.charge(key)).is_denied();
    // A list of one key is scanned, a longer one is hashed.
    for listed in [Key::new("ten", "ant"), Key::new("x", "y")] {
        store.switches().deny(listed);
        assert!(is_denied(Key::new("ten", "ant")));
        for other in
            [("", "ant"), ("other", "ant"), ("ten", ""), ("", "tenant"), ("tenant", ""), ("tena", "nt")]
        {
            assert!(!is_denied(Key::new(other.0, other.1)), "{other:?}");
        }
    }
}

#[test]
fn lists_are_replaced_in_any_order_and_the_deny_list_wins() {
    let (store, api) = (switched(), limit("api", 10));
    let switches = store.switches();
    switches.allow("old friend");
    switches.deny("old foe");
    switches.set_deny_list(["foe", "both"]);
    switches.set_allow_list(["friend".to_owned(), "both".to_owned()].iter());
    assert_eq!(switches.list_of("foe"), Some(KeyList::Deny));
    assert_eq!(switches.list_of("friend"), Some(KeyList::Allow));
    assert_eq!(switches.list_of("both"), Some(KeyList::Deny));
    assert_eq!((switches.list_of("old friend"), switches.list_of("old foe")), (None, None));
    assert_eq!((switches.state().allow_listed, switches.state().deny_listed), (2, 2));
    assert!(DECIDE_ONE[0](&store, &api.charge("both")).is_denied());
    switches.set_deny_list(std::iter::empty::<&str>());
    assert!(DECIDE_ONE[0](&store, &api.charge("both")).is_allowed());
}

#[test]
fn a_deny_listed_key_can_still_refund_and_release() {
    let (store, flight) = (switched(), Limit::concurrent(1).build("flight").expect("valid"));
    let (lease, api) = (LeaseId::new(7), limit("api", 10));
    let slot = flight.charge("all").with_lease(lease);
    assert!(DECIDE[0](&store, &[slot, api.charge("bad")]).is_allowed());
    store.switches().deny("bad");
    let _ = store.store().calls();
    let returned =
        [slot.with_action(Action::Release), api.charge("bad").with_action(Action::Refund { at: None })];
    assert!(DECIDE[0](&store, &returned).is_allowed());
    assert_eq!(store.store().calls(), [Call::Request(requested(["flight", "api"]))]);
    assert_eq!(store.store().remaining(&flight, "all"), 1);
    for action in [Action::Renew, Action::TakeUpTo, Action::Debit { at: None }] {
        assert!(DECIDE[0](&store, &[flight.charge("bad").with_action(action)]).is_denied(), "{action:?}");
    }
}

#[test]
fn detached_requests_of_deny_listed_keys_are_dropped() {
    let (store, api) = (switched(), limit("api", 10));
    store.switches().deny("bad");
    store.decide_detached(Request::new(&[api.charge("good"), api.charge("bad")]), NOW);
    assert_eq!(store.store().calls(), vec![]);
    let exported = ready(store.export(&api, "bad".into(), NOW)).expect("a decision");
    assert_eq!(exported.state, None);
}

/// Lists can be long, and contain personal data.
#[test]
fn debug_output_shows_how_many_keys_are_listed_and_not_which() {
    let switched = Switched::new(tollgate_store_memory::MemoryStore::config().max_keys(100).build());
    switched
        .switches()
        .set_allow_list((0..2_000).map(|key| format!("alice {key}")).collect::<Vec<_>>().iter());
    switched.switches().off("api");
    let shown = format!("{switched:?}");
    assert!(shown.len() < 1_000, "{} bytes", shown.len());
    assert!(shown.contains("api") && shown.contains("2000") && !shown.contains("alice"), "{shown}");
}
