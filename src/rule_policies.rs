//! The failure policies of rules, for guarded stores.

use crate::ConfigError;
use crate::resilience::{FailurePolicies, FallbackStore, OnFailure, Share};
use crate::rules::{OnStoreError, RuleSet};

/// Lets a guarded store decide as the rules say while it fails: replaces the failure policies of its limits by what
/// `on_store_error` says. Limits whose rule does not say it have the policy of the store's builder.
///
/// `fallback` decides where a rule says `share`. Call it at startup and after each reload, with the same fallback.
///
/// ```
/// # #[cfg(feature = "memory")] {
/// use tollgate::memory::MemoryStore;
/// use tollgate::resilience::{FallbackStore, Guarded, OnFailure, Share};
/// use tollgate::rules::{RuleSet, Source};
///
/// let rules = RuleSet::from_sources([Source::new("shop.yaml", "
/// domain: shop
/// rules:
///   - { name: login, per: ip, limit: 5/min, on_store_error: deny }
///   - { name: api, per: user, limit: 50/s, on_store_error: 'allow for 30s, then deny' }
///   - { name: search, per: user, limit: 5/s, on_store_error: share 1/10 }
/// ")])?;
/// # let store = MemoryStore::new(); // for a store that can fail
/// let guarded = Guarded::builder(store).build()?;
/// let fallback = FallbackStore::new(MemoryStore::new(), Share::one_of(1));
/// tollgate::apply_failure_policies(&rules, guarded.failure_policies(), &fallback)?;
/// assert!(matches!(guarded.failure_policies().of("shop/login/1m"), OnFailure::Deny));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn apply_failure_policies(
    rules: &RuleSet,
    policies: &FailurePolicies,
    fallback: &FallbackStore,
) -> Result<(), ConfigError> {
    policies.replace(rules.failure_policies().map(|(limit, policy)| (limit, on_failure(policy, fallback))))
}

fn on_failure(policy: OnStoreError, fallback: &FallbackStore) -> OnFailure {
    match policy {
        OnStoreError::Allow => OnFailure::Allow,
        OnStoreError::AllowFor(time) => OnFailure::AllowFor(time),
        OnStoreError::Share { of } => fallback.with_share(Share::one_of(of)).into(),
        OnStoreError::Deny => OnFailure::Deny,
    }
}
