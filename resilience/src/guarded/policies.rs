//! The failure policies that apply now, and the handle that replaces them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollgate_core::ConfigError;

use super::policy::OnFailure;
use super::shares::Policies;

/// Replaces the failure policies of limits at run time, such as when a rule file is reloaded.
///
/// Clones are the same policies, those of one [`Guarded`](crate::Guarded) store. A request is decided by the policies
/// of one instant, and calls that the store answers do not read them.
///
/// ```
/// use tollgate::Limit;
/// use tollgate::memory::MemoryStore;
/// use tollgate::resilience::{Guarded, OnFailure};
///
/// let guarded = Guarded::builder(MemoryStore::new()).on_failure(OnFailure::Allow).build()?;
/// let policies = guarded.failure_policies().clone();
/// policies.replace([("login", OnFailure::Deny)])?;
/// assert!(matches!(policies.of("login"), OnFailure::Deny));
/// assert!(matches!(policies.of("api"), OnFailure::Allow));
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct FailurePolicies(Arc<LivePolicies>);

struct LivePolicies {
    /// The policies of the builder.
    built: PolicyTable,
    now: ArcSwap<Policies>,
}

/// The default policy, and the policies of limits by name.
#[derive(Clone, Debug)]
pub(super) struct PolicyTable {
    pub(super) default: OnFailure,
    pub(super) by_name: HashMap<Box<str>, OnFailure>,
}

impl FailurePolicies {
    pub(super) fn new(built: PolicyTable) -> Self {
        let now = ArcSwap::from_pointee(Policies::new(built.clone()));
        Self(Arc::new(LivePolicies { built, now }))
    }

    /// Replaces the policies of an earlier call by these: of the limits with these names. All other limits have the
    /// policy that the builder set. An error changes nothing.
    ///
    /// A fallback store should be the same in every call, in clones: another one does not know what was granted.
    pub fn replace<N: Into<Box<str>>>(
        &self,
        policies: impl IntoIterator<Item = (N, OnFailure)>,
    ) -> Result<(), ConfigError> {
        let refuse = |problem: String, advice: &str| {
            Err(ConfigError::new("FailurePolicies", "replace", problem, advice))
        };
        let mut replaced: HashMap<Box<str>, OnFailure> = HashMap::new();
        for (name, policy) in policies {
            let name = name.into();
            if let Some((problem, advice)) = policy.problem() {
                return refuse(format!("{problem}, for the limit `{name}`"), advice);
            }
            match replaced.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(policy);
                }
                Entry::Occupied(entry) => {
                    let problem = format!("has two policies of the limit `{}`", entry.key());
                    return refuse(problem, "use one policy for all limits of a name");
                }
            }
        }
        let mut table = self.0.built.clone();
        table.by_name.extend(replaced);
        self.0.now.store(Arc::new(Policies::new(table)));
        Ok(())
    }

    /// Returns the policy of the limits with this name.
    pub fn of(&self, limit: &str) -> OnFailure {
        self.load().of(limit).clone()
    }

    /// Returns the policies that apply now.
    pub(super) fn load(&self) -> Guard<Arc<Policies>> {
        self.0.now.load()
    }
}

/// Shows the policies that apply now.
impl fmt::Debug for FailurePolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FailurePolicies").field(self.load().table()).finish()
    }
}
