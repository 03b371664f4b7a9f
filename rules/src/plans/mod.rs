//! Plans: which user is on which plan, such as free, standard and pro, at run time.
//!
//! # Layout
//!
//! - `builder`: [`PlansBuilder`]; `error`: [`PlanError`].
//! - `assign`: registering, changing and removing users.
//! - `cache`: what is known of users; `attributes`: the attribute `plan` of a request.

mod assign;
mod attributes;
mod builder;
mod cache;
mod error;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollgate_core::documents::{Document, DocumentStore, check_document};
use tollgate_core::{ErrorKind, Event, Observer, StoreError, SystemClock, Timer};

pub use assign::Assignment;
pub use attributes::WithPlan;
pub use builder::PlansBuilder;
pub use error::PlanError;

use crate::attributes::Attributes;
use crate::deadline::within;
use builder::Settings;
use cache::{Answer, Cache, Failure, Lookup, User};
use error::store_error;

/// Characters that are escaped in the name of a user: a user `a/b` is no user `b` of the directory `a`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');

/// Which user is on which plan. What a plan allows is in the rules: `plan: { by: plan, free: 50/s, pro: 1000/s }`.
///
/// Assignments are stored as documents, one per user, so that all processes on the same store have the same ones, and
/// so that their history says who changed what. This value keeps them in memory:
///
/// - [`plan_of`](Self::plan_of) asks the store at most once per user in [`cache_for`](PlansBuilder::cache_for), however
///   many callers there are; also about users that are not registered. A change of this value is seen by it at once, and
///   by others at most that much later.
/// - While the store does not answer, the last known plan of a user is used for
///   [`keep_for`](PlansBuilder::keep_for), and the default plan after that. [`PlanSource`] says so, and so does the event
///   [`PlanUnavailable`](Event::PlanUnavailable).
///
/// A user who changes plan keeps the state: consumed quota stays consumed.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::memory::MemoryDocuments;
/// use tollgate::rules::{Attributes, Plans};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = Plans::builder(Arc::new(MemoryDocuments::new()))
///     .plans(["free", "standard", "pro"])
///     .default_plan("free")
///     .build()?;
/// plans.register("alice", "standard").await?;
/// plans.change("alice", "pro").await?;
/// assert_eq!(plans.plan_of("alice").await?.name(), "pro");
/// assert_eq!(plans.plan_of("bob").await?.name(), "free");
/// assert!(plans.register("bob", "gold").await.is_err());
///
/// // The attributes of a request, for the rules.
/// let request = plans.attributes("alice", [("path", "/api/items"), ("user", "alice")]).await?;
/// assert_eq!(request.get("plan").as_deref(), Some("pro"));
/// # Ok(())
/// # }
/// ```
pub struct Plans<C = SystemClock> {
    store: Arc<dyn DocumentStore>,
    names: Vec<Arc<str>>,
    default: Option<Arc<str>>,
    directory: String,
    author: String,
    settings: Settings,
    cache: Cache,
    observer: Option<Arc<dyn Observer>>,
    clock: C,
}

/// The plan of a user, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlan {
    name: Arc<str>,
    source: PlanSource,
}

/// Where the plan of a user comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanSource {
    /// The user is registered on it.
    Assignment {
        /// The version of the assignment.
        version: u64,
    },
    /// The user is not registered: it is the default plan.
    Default,
    /// The store does not answer: it is what the store said last.
    LastKnown {
        /// How long ago the store said so.
        age: Duration,
    },
    /// The store does not answer, and has not said anything recently: it is the default plan.
    DefaultUnavailable,
}

impl UserPlan {
    /// Returns the name of the plan.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where the plan comes from.
    pub fn source(&self) -> PlanSource {
        self.source
    }
}

impl fmt::Display for UserPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Plans {
    /// Returns a builder for plans whose assignments are kept in a store of documents.
    pub fn builder(store: Arc<dyn DocumentStore>) -> PlansBuilder {
        PlansBuilder::new(store)
    }
}

impl<C: Timer> Plans<C> {
    /// Returns the plan that a user is on.
    ///
    /// An error if the user is not registered and there is no default plan, if the user is on a plan that these plans do
    /// not have, or if the store does not answer and there is neither a last known plan nor a default one.
    pub async fn plan_of(&self, user: &str) -> Result<UserPlan, PlanError> {
        let Ok(document) = self.document(user) else {
            // A name that cannot be registered is not registered. It is not kept in memory either.
            return self.answer(Answer::Unregistered);
        };
        let known = self.cache.user(user);
        let Settings { cache_for, retry_after, deadline, .. } = self.settings;
        let look_up = || known.look_up(self.clock.now(), cache_for, retry_after);
        match look_up() {
            Lookup::Fresh(answer) => return self.answer(answer),
            Lookup::Failed(failure) => return self.fall_back(failure),
            Lookup::Ask => {}
        }
        let ask = async {
            let _asking = known.asking.lock().await;
            // Another caller may have asked in the meantime.
            match look_up() {
                Lookup::Fresh(answer) => return self.answer(answer),
                Lookup::Failed(failure) => return self.fall_back(failure),
                Lookup::Ask => {}
            }
            match self.store.get(&document).await {
                Ok(document) => self.answer(self.record(&known, document.as_ref())),
                Err(error) => self.failed(&known, &store_error(error)),
            }
        };
        match within(&self.clock, deadline, ask).await {
            Some(found) => found,
            // One failure is one event, however many callers have waited for the answer.
            None => match look_up() {
                Lookup::Failed(failure) => self.fall_back(failure),
                Lookup::Fresh(answer) => self.answer(answer),
                Lookup::Ask => self.failed(&known, &late(deadline)),
            },
        }
    }

    /// Returns the attributes of a request together with the plan of its user, as the attribute `plan`. Errors are those
    /// of [`plan_of`](Self::plan_of).
    pub async fn attributes<A: Attributes>(&self, user: &str, request: A) -> Result<WithPlan<A>, PlanError> {
        Ok(WithPlan::new(request, self.plan_of(user).await?))
    }

    /// Returns of how many users the plan is in memory. Approximate while users are added.
    pub fn cached_users(&self) -> u64 {
        self.cache.len()
    }

    /// Records what the store said about a user.
    fn record(&self, user: &User, document: Option<&Document>) -> Answer {
        let answer = document.map_or(Answer::Unregistered, |document| {
            let (name, version) = (document.text.trim(), document.revision.version);
            match self.find(name) {
                Ok(plan) => Answer::Registered { plan, version },
                // A text that is no name of a plan may be long.
                Err(_) => Answer::Unknown(name.chars().take(64).collect::<String>().into()),
            }
        });
        user.answered(answer.clone(), self.clock.now());
        answer
    }

    fn answer(&self, answer: Answer) -> Result<UserPlan, PlanError> {
        match answer {
            Answer::Registered { plan, version } => {
                Ok(UserPlan { name: plan, source: PlanSource::Assignment { version } })
            }
            Answer::Unregistered => self.default_because(PlanSource::Default).ok_or(PlanError::UnknownUser),
            Answer::Unknown(plan) => Err(self.unknown_plan(&plan)),
        }
    }

    fn failed(&self, user: &User, error: &StoreError) -> Result<UserPlan, PlanError> {
        let failure = user.failed(error, self.clock.now());
        if let Some(observer) = &self.observer {
            observer.observe(Event::PlanUnavailable { error });
        }
        self.fall_back(failure)
    }

    /// Returns the plan of a user whose plan the store did not answer.
    fn fall_back(&self, failure: Failure) -> Result<UserPlan, PlanError> {
        let Failure { error, last } = failure;
        let last = last.filter(|(_, age)| *age < self.settings.keep_for);
        if let Some((answer, age)) = last {
            let source = PlanSource::LastKnown { age };
            return self.answer(answer).map(|plan| UserPlan { source, ..plan });
        }
        self.default_because(PlanSource::DefaultUnavailable).ok_or(PlanError::Store(error))
    }

    fn default_because(&self, source: PlanSource) -> Option<UserPlan> {
        Some(UserPlan { name: Arc::clone(self.default.as_ref()?), source })
    }

    fn find(&self, plan: &str) -> Result<Arc<str>, PlanError> {
        let found = self.names.iter().find(|name| &***name == plan);
        found.map(Arc::clone).ok_or_else(|| self.unknown_plan(plan))
    }

    fn unknown_plan(&self, plan: &str) -> PlanError {
        let known = self.names.iter().map(ToString::to_string).collect();
        PlanError::UnknownPlan { plan: plan.to_owned(), known }
    }

    fn document(&self, user: &str) -> Result<String, PlanError> {
        document_of(&self.directory, user)
    }
}

/// Returns the name of the document of a user.
fn document_of(directory: &str, user: &str) -> Result<String, PlanError> {
    if user.is_empty() {
        return Err(PlanError::InvalidUser("is empty; use at least one character".to_owned()));
    }
    let document = format!("{directory}/{}", utf8_percent_encode(user, ESCAPED));
    let is_valid = check_document(&document, "").is_ok();
    let too_long = || PlanError::InvalidUser(format!("has {} bytes; use fewer", user.len()));
    is_valid.then_some(document).ok_or_else(too_long)
}

fn late(deadline: Duration) -> StoreError {
    StoreError::new(ErrorKind::Timeout, format!("no answer within {deadline:?}"))
}

impl<C> fmt::Debug for Plans<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans")
            .field("plans", &self.names)
            .field("default_plan", &self.default)
            .field("directory", &self.directory)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
