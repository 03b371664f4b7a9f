//! What is known of users: bounded, and dated by the clock of the plans.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache as Users;
use tollgate_core::{StoreError, Time};

/// What the store said about a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The user is on this plan.
    Registered {
        plan: Arc<str>,
        version: u64,
    },
    Unregistered,
    /// The user is on a plan that these plans do not have.
    Unknown(Arc<str>),
}

/// What is known of one user.
#[derive(Debug, Default)]
pub(super) struct User {
    known: Mutex<Known>,
    /// Held by the caller that asks the store. The others wait for it, and use its answer.
    pub(super) asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    answer: Option<(Answer, Time)>,
    failure: Option<(StoreError, Time)>,
}

/// What to do about a user.
#[derive(Debug)]
pub(super) enum Lookup {
    /// This is recent enough.
    Fresh(Answer),
    /// The store failed a moment ago. It is not asked again yet.
    Failed(Failure),
    /// The store is to be asked.
    Ask,
}

/// What is known of a user whose plan the store did not answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// The last answer, and how old it is.
    pub(super) last: Option<(Answer, Duration)>,
}

impl User {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look_up(&self, now: Time, cache_for: Duration, retry_after: Duration) -> Lookup {
        let known = self.lock();
        // An instant in the future was recorded before the clock was set back: nobody knows how old it is.
        let is_within = |at: Time, span: Duration| at <= now && now.since(at) < span;
        if let Some((answer, at)) = &known.answer
            && is_within(*at, cache_for)
        {
            return Lookup::Fresh(answer.clone());
        }
        match &known.failure {
            Some((error, at)) if is_within(*at, retry_after) => {
                Lookup::Failed(known.failure(error.clone(), now))
            }
            Some(_) | None => Lookup::Ask,
        }
    }

    pub(super) fn answered(&self, answer: Answer, now: Time) {
        *self.lock() = Known { answer: Some((answer, now)), failure: None };
    }

    pub(super) fn failed(&self, error: &StoreError, now: Time) -> Failure {
        let mut known = self.lock();
        known.failure = Some((error.clone(), now));
        known.failure(error.clone(), now)
    }

    /// Makes a change of this user in the store. If the caller goes away meanwhile, the change may have been made: the
    /// next look-up asks the store.
    pub(super) async fn change<T>(&self, change: impl Future<Output = T>) -> T {
        let mut cancelled = ForgetOnDrop(Some(self));
        let made = change.await;
        cancelled.0 = None;
        made
    }

    /// Makes the next look-up ask the store.
    pub(super) fn forget(&self) {
        *self.lock() = Known::default();
    }
}

/// Forgets what is known of a user, if there still is one.
struct ForgetOnDrop<'a>(Option<&'a User>);

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(user) = self.0 {
            user.forget();
        }
    }
}

impl Known {
    fn failure(&self, error: StoreError, now: Time) -> Failure {
        let last = self.answer.clone().map(|(answer, at)| (answer, now.since(at)));
        Failure { error, last }
    }
}

/// What is known of many users. Those that are looked up rarely are dropped where there are too many.
///
/// Entries have no time-to-live of the cache's own, because that would follow another clock than the plans do.
#[derive(Debug)]
pub(super) struct Cache {
    users: Users<String, Arc<User>>,
}

impl Cache {
    pub(super) fn new(max_users: u64) -> Self {
        Self { users: Users::new(max_users) }
    }

    pub(super) fn user(&self, name: &str) -> Arc<User> {
        self.users.get_with_by_ref(name, Arc::default)
    }

    /// Returns how many users are known. Approximate while users are added.
    pub(super) fn len(&self) -> u64 {
        self.users.run_pending_tasks();
        self.users.entry_count()
    }
}
