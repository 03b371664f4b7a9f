//! What to do when the store fails, limit by limit.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{AlgorithmKind, Charge, Decision, Limit, LimitError, Request, StoreError, Time, Verdict};

/// What becomes of charges that the store could not decide.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnFailure {
    /// They pass: the limit protects nothing that is worth an outage.
    Allow,
    /// They don't: the limit protects something that must not be unprotected.
    Deny,
    /// Another store decides, with a share of the limit.
    Local(Local),
}

impl From<Local> for OnFailure {
    fn from(local: Local) -> Self {
        Self::Local(local)
    }
}

/// Another store that decides while the store is away, with a share of each limit.
///
/// It has to be one that never waits, in this process's memory: what is there for when stores fail must not fail
/// itself.
///
/// ```
/// use tollgate_resilience::{Local, Share};
/// use tollgate_store_memory::MemoryStore;
///
/// // Ten of these programs share a limit; each goes on with a tenth of it.
/// let local = Local::on(MemoryStore::new(), Share::one_of(10));
/// # let _ = local;
/// ```
#[derive(Clone)]
pub struct Local {
    pub(crate) store: Arc<dyn LocalStore>,
    share: Share,
}

impl Local {
    /// Decides on `store`, with this share of each limit.
    pub fn on(store: impl ImmediateStore + 'static, share: Share) -> Self {
        Self { store: Arc::new(store), share }
    }

    /// The same store with another share, for other limits.
    #[must_use]
    pub fn with_share(&self, share: Share) -> Self {
        Self { store: Arc::clone(&self.store), share }
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("share", &self.share).finish_non_exhaustive()
    }
}

/// Which part of a limit one of several may spend on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    part: u32,
    of: u32,
}

impl Share {
    /// All of it: there is only one of this program, or each may spend as much as all should.
    pub const WHOLE: Self = Self { part: 1, of: 1 };

    /// What one of `count` programs may spend. One of none is all of it.
    pub const fn one_of(count: u32) -> Self {
        Self { part: 1, of: if count == 0 { 1 } else { count } }
    }

    /// So many percent: at least one, at most all of it.
    pub const fn percent(percent: u32) -> Self {
        let part = if percent == 0 { 1 } else { percent };
        Self { part: if part > 100 { 100 } else { part }, of: 100 }
    }
}

/// [`ImmediateStore`] for dynamic dispatch: nobody has to name its type.
pub(crate) trait LocalStore: Send + Sync {
    fn charge_at(&self, charge: &Charge<'_>, now: Time) -> Decision;
    fn decide_at(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
}

impl<S: ImmediateStore> LocalStore for S {
    fn charge_at(&self, charge: &Charge<'_>, now: Time) -> Decision {
        self.charge_now(charge, &now)
    }

    fn decide_at(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide_now(request, now)
    }
}

/// Limits whose shares are remembered. More than a program has; if limits are made from requests, the rest is
/// worked out each time.
const MOST_SHARES: usize = 1_024;
/// In how many places a limit is looked for.
const REACH: usize = 8;

/// Which policy each limit has, and its share.
#[derive(Debug)]
pub(crate) struct Policies {
    usual: OnFailure,
    by_name: HashMap<Box<str>, OnFailure>,
    /// Each in one of a few places behind the one that its id names; a limit that changes its numbers has several. Never
    /// changed once they are there, so that nobody locks anything to read them.
    shares: Box<[OnceLock<Shared>]>,
}

/// A limit and its share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) whole: Limit,
    /// Or why there is none.
    pub(crate) share: Result<Limit, LimitError>,
    /// How long it takes an exhausted limit to be as good as new; `None` if it counts no consumption.
    pub(crate) memory: Option<Duration>,
}

impl Default for Policies {
    fn default() -> Self {
        // A limiter that is away should not take the service with it.
        let shares = (0..MOST_SHARES).map(|_| OnceLock::new()).collect();
        Self { usual: OnFailure::Allow, by_name: HashMap::new(), shares }
    }
}

impl Policies {
    pub(crate) fn set_usual(&mut self, policy: OnFailure) {
        self.usual = policy;
        self.forget_shares();
    }

    pub(crate) fn set(&mut self, limit: &str, policy: OnFailure) {
        self.by_name.insert(limit.into(), policy);
        self.forget_shares();
    }

    /// They are those of the policies before.
    fn forget_shares(&mut self) {
        for share in &mut self.shares {
            share.take();
        }
    }

    pub(crate) fn of(&self, name: &str) -> &OnFailure {
        if self.by_name.is_empty() {
            return &self.usual;
        }
        self.by_name.get(name).unwrap_or(&self.usual)
    }

    /// Uses a limit's share by `local`, which is its policy.
    #[inline]
    pub(crate) fn with_share<T>(&self, local: &Local, limit: &Limit, usage: impl FnOnce(&Shared) -> T) -> T {
        let first = usize::try_from(limit.id() % MOST_SHARES as u64).unwrap_or(0);
        for place in first..first + REACH {
            let shared = self.shares[place % MOST_SHARES].get_or_init(|| Shared::new(limit, local.share));
            if shared.whole == *limit {
                return usage(shared);
            }
        }
        usage(&Shared::new(limit, local.share))
    }
}

impl Shared {
    fn new(limit: &Limit, Share { part, of }: Share) -> Self {
        let numbers = limit.parameters();
        let memory = match limit.kind() {
            // Places are held, not consumed.
            AlgorithmKind::Concurrency => None,
            kind if kind.is_flow() || kind == AlgorithmKind::IntervalBucket => {
                Some(limit.period().mul_f64(f64::from(numbers.capacity) / f64::from(numbers.count.max(1))))
            }
            _ => Some(limit.period()),
        };
        Self { whole: limit.clone(), share: limit.share(part, of), memory }
    }
}
