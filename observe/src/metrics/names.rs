//! Names of the metrics, and their descriptions for exporters.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) const DECISIONS: &str = "tollgate_decisions_total";
pub(super) const ERRORS: &str = "tollgate_errors_total";
pub(super) const FALLBACKS: &str = "tollgate_fallbacks_total";
pub(super) const LABEL_OVERFLOW: &str = "tollgate_limit_label_overflow_total";
pub(super) const BREAKER_STATE: &str = "tollgate_breaker_state";
pub(super) const BREAKER_CHANGES: &str = "tollgate_breaker_changes_total";
pub(super) const RECONCILIATIONS: &str = "tollgate_reconciliations_total";
pub(super) const RECONCILED_KEYS: &str = "tollgate_reconciled_keys_total";
pub(super) const RECONCILIATION_LOST: &str = "tollgate_reconciliation_lost_tokens_total";
pub(super) const SYNC_ROUND: &str = "tollgate_sync_round_seconds";
pub(super) const SYNCED_KEYS: &str = "tollgate_synced_keys_total";
pub(super) const SYNC_ERRORS: &str = "tollgate_sync_errors_total";
pub(super) const SYNC_DEBT: &str = "tollgate_sync_debt_tokens";
pub(super) const SYNC_STALE: &str = "tollgate_sync_stale_seconds";
pub(super) const STORE_CALL: &str = "tollgate_store_call_seconds";
pub(super) const STORE_ERRORS: &str = "tollgate_store_errors_total";
pub(super) const MISCONFIGURED_SERVERS: &str = "tollgate_misconfigured_servers_total";
pub(super) const RULES_LOADS: &str = "tollgate_rules_loads_total";
pub(super) const RULES_DOCUMENTS: &str = "tollgate_rules_documents";
pub(super) const RULES_REJECTIONS: &str = "tollgate_rules_rejections_total";
pub(super) const RULES_REJECTED: &str = "tollgate_rules_rejected";
pub(super) const RULES_POLL_ERRORS: &str = "tollgate_rules_poll_errors_total";
pub(super) const RULES_STALE: &str = "tollgate_rules_stale_seconds";
pub(super) const PLAN_ERRORS: &str = "tollgate_plan_errors_total";

/// Describes all metrics to the recorder that is installed now.
pub(super) fn describe() {
    describe_counter!(DECISIONS, "Decisions on charges.");
    describe_counter!(ERRORS, "Charges that were not decided: the limiter returned an error.");
    describe_counter!(FALLBACKS, "Decisions that a fallback made instead of the store.");
    describe_counter!(LABEL_OVERFLOW, "Decisions, errors and fallbacks of limits that share one label.");
    describe_gauge!(
        BREAKER_STATE,
        "1 for the current state of the store's circuit breaker, 0 for the others."
    );
    describe_counter!(BREAKER_CHANGES, "Changes of circuit breakers to a state.");
    describe_counter!(RECONCILIATIONS, "Reconciliations of a fallback store with the store after an outage.");
    describe_counter!(RECONCILED_KEYS, "Keys that were reconciled after an outage.");
    describe_counter!(RECONCILIATION_LOST, "Tokens granted during an outage that could not be reconciled.");
    describe_histogram!(SYNC_ROUND, Unit::Seconds, "Duration of sync rounds with the central store.");
    describe_counter!(SYNCED_KEYS, "Keys that took part in sync rounds.");
    describe_counter!(SYNC_ERRORS, "Sync rounds that the central store did not answer in full.");
    describe_gauge!(SYNC_DEBT, "Largest debt of a key in the last sync round, in tokens.");
    describe_gauge!(SYNC_STALE, Unit::Seconds, "Time for which the central store has not answered.");
    describe_histogram!(STORE_CALL, Unit::Seconds, "Duration of store calls.");
    describe_counter!(STORE_ERRORS, "Store calls that failed.");
    describe_counter!(
        MISCONFIGURED_SERVERS,
        "Servers found with a configuration that lets limits be exceeded."
    );
    describe_counter!(RULES_LOADS, "Times that other rules came into use.");
    describe_gauge!(RULES_DOCUMENTS, "Documents of the rules in use.");
    describe_counter!(RULES_REJECTIONS, "New rules that cannot be used.");
    describe_gauge!(RULES_REJECTED, "1 while the newest rules cannot be used and older ones are in use.");
    describe_counter!(RULES_POLL_ERRORS, "Polls that the source of rules did not answer.");
    describe_gauge!(RULES_STALE, Unit::Seconds, "Time for which the source of rules has not answered.");
    describe_counter!(PLAN_ERRORS, "Look-ups of a user's plan that the store did not answer.");
}
