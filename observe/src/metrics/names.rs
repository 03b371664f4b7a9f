//! What the metrics are called, and what exporters say about them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) const DECISIONS: &str = "tollgate_decisions_total";
pub(super) const FALLBACKS: &str = "tollgate_fallbacks_total";
pub(super) const FOLDED: &str = "tollgate_folded_total";
pub(super) const BREAKER_STATE: &str = "tollgate_breaker_state";
pub(super) const BREAKER_CHANGES: &str = "tollgate_breaker_changes_total";
pub(super) const HANDOVERS: &str = "tollgate_handovers_total";
pub(super) const HANDED_OVER_KEYS: &str = "tollgate_handed_over_keys_total";
pub(super) const HANDOVER_LOST: &str = "tollgate_handover_lost_total";
pub(super) const EXCHANGE: &str = "tollgate_exchange_seconds";
pub(super) const EXCHANGED_KEYS: &str = "tollgate_exchanged_keys_total";
pub(super) const EXCHANGE_ERRORS: &str = "tollgate_exchange_errors_total";
pub(super) const EXCHANGE_DEBT: &str = "tollgate_exchange_debt_tokens";
pub(super) const EXCHANGE_SILENCE: &str = "tollgate_exchange_silence_seconds";
pub(super) const STORE_CALL: &str = "tollgate_store_call_seconds";
pub(super) const STORE_ERRORS: &str = "tollgate_store_errors_total";

/// Tells the recorder that is installed now.
pub(super) fn describe() {
    describe_counter!(DECISIONS, "Charges that were decided.");
    describe_counter!(FALLBACKS, "Charges that something other than the store decided.");
    describe_counter!(FOLDED, "Decisions and fallbacks of limits that share one label.");
    describe_gauge!(BREAKER_STATE, "1 for the state of the breaker that changed last, 0 for the others.");
    describe_counter!(BREAKER_CHANGES, "Changes of breakers to a state.");
    describe_counter!(HANDOVERS, "Times that a store was told what was consumed while it was away.");
    describe_counter!(HANDED_OVER_KEYS, "Keys whose consumption a store was told afterwards.");
    describe_counter!(
        HANDOVER_LOST,
        "Tokens consumed while a store was away that it could not be told about."
    );
    describe_histogram!(EXCHANGE, Unit::Seconds, "How long exchanges of local and central state took.");
    describe_counter!(EXCHANGED_KEYS, "Keys whose local and central state were exchanged.");
    describe_counter!(EXCHANGE_ERRORS, "Exchanges that the central store did not answer in full.");
    describe_gauge!(EXCHANGE_DEBT, "How far below zero a key was at most at the last exchange, in tokens.");
    describe_gauge!(EXCHANGE_SILENCE, Unit::Seconds, "How long the central store has not answered.");
    describe_histogram!(STORE_CALL, Unit::Seconds, "How long calls of stores took.");
    describe_counter!(STORE_ERRORS, "Calls of stores that failed.");
}
