//! What an operator can read.

use tollgate_resilience::{ShadowStats, SwitchState, SwitchedStats, Switches};

#[test]
fn the_state_has_the_position_of_every_switch() {
    let switches = Switches::new();
    assert_eq!((switches.state(), switches.stats()), (SwitchState::default(), SwitchedStats::default()));
    switches.off("b");
    switches.off("a");
    switches.shadow("c");
    switches.allow("x");
    switches.set_deny_list(["y", "z"]);
    let state = switches.state();
    assert_eq!((state.all_off, state.off), (false, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(state.shadow, ["c"]);
    assert_eq!(Vec::from_iter(switches.stats().shadow), [("c".to_owned(), ShadowStats::default())]);
    assert_eq!((state.allow_listed, state.deny_listed), (1, 2));
}

#[test]
fn the_state_of_a_limit_follows_its_switch() {
    let switches = Switches::new();
    // Kill switch, off, in shadow mode, counted.
    let state = || {
        let state = switches.state();
        let contains = |names: &[String]| names.iter().any(|name| name == "api");
        let counted = switches.stats().shadow.contains_key("api");
        (state.all_off, contains(&state.off), contains(&state.shadow), counted)
    };
    assert_eq!(state(), (false, false, false, false));
    switches.off("api");
    assert_eq!(state(), (false, true, false, false));
    switches.shadow("api");
    assert_eq!(state(), (false, false, true, true));
    switches.all_off();
    assert_eq!(state(), (true, false, true, true));
    switches.all_on();
    assert_eq!(state(), (false, false, true, true));
    switches.on("api");
    assert_eq!((state(), switches.state()), ((false, false, false, false), SwitchState::default()));
}

#[test]
fn keys_are_not_shown() {
    let switches = Switches::new();
    switches.deny("alice@example.org");
    assert!(!format!("{switches:?}").contains("alice"));
}
