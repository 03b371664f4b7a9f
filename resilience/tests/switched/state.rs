//! What an operator sees.

use tollgate_resilience::{LimitMode, ShadowReport, SwitchState, Switches};

#[test]
fn the_state_tells_what_is_switched() {
    let switches = Switches::new();
    assert_eq!(switches.state(), SwitchState::default());
    switches.off("b");
    switches.off("a");
    switches.shadow("c");
    switches.allow("x");
    switches.set_denied(["y", "z"]);
    let state = switches.state();
    assert_eq!((state.all_off, state.off), (false, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(state.shadow, [("c".to_owned(), ShadowReport::default())]);
    assert_eq!((state.allowed, state.denied), (1, 2));
}

#[test]
fn the_mode_of_a_limit_follows_its_switch() {
    let switches = Switches::new();
    let modes = || (switches.mode("api"), switches.shadow_report("api").is_some());
    assert_eq!(modes(), (LimitMode::On, false));
    switches.off("api");
    assert_eq!(modes(), (LimitMode::Off, false));
    switches.shadow("api");
    assert_eq!(modes(), (LimitMode::Shadow, true));
    switches.all_off();
    assert_eq!((modes(), switches.state().all_off), ((LimitMode::Off, true), true));
    switches.all_on();
    assert_eq!((modes(), switches.state().all_off), ((LimitMode::Shadow, true), false));
    switches.on("api");
    assert_eq!((modes(), switches.state()), ((LimitMode::On, false), SwitchState::default()));
}

#[test]
fn keys_are_not_shown() {
    let switches = Switches::new();
    switches.deny("alice@example.org");
    assert!(!format!("{switches:?}").contains("alice"));
}
