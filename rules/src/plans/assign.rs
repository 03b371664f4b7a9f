//! Registering, changing and removing users.

use tollgate_core::documents::{Change, Document, DocumentError, Revision};
use tollgate_core::{Effect, Time, Timer};

use super::Plans;
use super::error::PlanError;

/// The plan that a user was assigned, by whom and when.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The plan.
    pub plan: String,
    /// The version of the assignment: 1 for the first one of a user.
    pub version: u64,
    /// Who assigned the plan.
    pub author: String,
    /// When.
    pub time: Time,
}

impl Assignment {
    fn new(plan: &str, revision: Revision) -> Self {
        let Revision { version, author, time, .. } = revision;
        Self { plan: plan.to_owned(), version, author, time }
    }
}

impl<C: Timer> Plans<C> {
    /// Assigns a plan to a new user.
    pub async fn register(&self, user: &str, plan: &str) -> Result<Assignment, PlanError> {
        let plan = self.find(plan)?;
        self.assign(user, &plan, None).await.map_err(|error| match error {
            PlanError::Conflict { .. } => PlanError::AlreadyRegistered,
            other => other,
        })
    }

    /// Assigns another plan to a user.
    ///
    /// If somebody else changes the user's plan at the same time, one of both changes fails with
    /// [`PlanError::Conflict`]. A change that depends on what the plan was before is better made by
    /// [`change_version`](Self::change_version).
    pub async fn change(&self, user: &str, plan: &str) -> Result<Assignment, PlanError> {
        let plan = self.find(plan)?;
        let current = self.assignment(user).await?.ok_or(PlanError::UnknownUser)?;
        self.assign(user, &plan, Some(current.version)).await
    }

    /// Assigns another plan to a user whose assignment was read before, as this version. If somebody else has changed it
    /// since, the error is [`PlanError::Conflict`], which has the version that was missed.
    pub async fn change_version(
        &self,
        user: &str,
        plan: &str,
        version: u64,
    ) -> Result<Assignment, PlanError> {
        let plan = self.find(plan)?;
        self.assign(user, &plan, Some(version)).await
    }

    /// Removes a user, who is on the default plan from then on, if there is one.
    pub async fn remove(&self, user: &str) -> Result<(), PlanError> {
        let current = self.assignment(user).await?.ok_or(PlanError::UnknownUser)?;
        self.remove_version(user, current.version).await
    }

    /// Removes a user whose assignment was read before, as this version. If somebody else has changed it since, the
    /// error is [`PlanError::Conflict`].
    pub async fn remove_version(&self, user: &str, version: u64) -> Result<(), PlanError> {
        let document = self.document(user)?;
        let change = self.by_author();
        let known = self.cache.user(user);
        // Look-ups of this user wait: none of them records what was read before this change.
        let _asking = known.asking.lock().await;
        match known.change(self.store.delete(&document, version, &change)).await {
            Ok(_) => {
                self.record(&known, None);
                Ok(())
            }
            Err(error) => Err(self.change_failed(user, error)),
        }
    }

    /// Returns what a user was assigned, from the store, whatever is in memory. `None` if the user is not registered.
    pub async fn assignment(&self, user: &str) -> Result<Option<Assignment>, PlanError> {
        let document = self.store.get(&self.document(user)?).await.map_err(PlanError::of_document)?;
        Ok(document.map(|Document { text, revision }| Assignment::new(text.trim(), revision)))
    }

    async fn assign(&self, user: &str, plan: &str, expected: Option<u64>) -> Result<Assignment, PlanError> {
        let document = self.document(user)?;
        let change = self.by_author();
        let known = self.cache.user(user);
        // Look-ups of this user wait: none of them records what was read before this change.
        let _asking = known.asking.lock().await;
        match known.change(self.store.put(&document, plan, expected, &change)).await {
            Ok(revision) => {
                let made = Document { text: plan.to_owned(), revision };
                self.record(&known, Some(&made));
                Ok(Assignment::new(plan, made.revision))
            }
            Err(error) => Err(self.change_failed(user, error)),
        }
    }

    fn change_failed(&self, user: &str, error: DocumentError) -> PlanError {
        // What is in memory is older than what the conflict is with, or than what the change may have done.
        let is_outdated = match &error {
            DocumentError::Conflict { .. } => true,
            DocumentError::Store(error) => error.effect() == Effect::Unknown,
            _ => false,
        };
        if is_outdated {
            self.cache.user(user).forget();
        }
        PlanError::of_document(error)
    }

    fn by_author(&self) -> Change {
        Change::by(&*self.author, self.clock.now())
    }
}
