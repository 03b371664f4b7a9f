//! A key that everybody asks about.

use std::time::Duration;

use tollgate::{Limit, Limiter, Source};
use tollgate_store_cassandra::{Config, Counts};

use super::{Gathered, connect};
use crate::redis::subject::Failure;

pub struct HotKey {
    limiter: Limiter<Gathered>,
    /// Nobody comes near it, and nothing comes back from it during a run, so that what is left says how much was taken.
    limit: Limit,
    name: String,
}

impl HotKey {
    pub async fn connect(config: Config, name: &str) -> Result<Self, Failure> {
        let limit = Limit::per(1_000_000_000, Duration::from_secs(365 * 86_400)).fixed_window().anchored();
        let limiter = Limiter::new(connect(config).await?);
        Ok(Self { limiter, limit: limit.build("api")?, name: name.to_owned() })
    }

    /// Whether a check was admitted; it is an error if not.
    pub async fn check(&self) -> Result<bool, Failure> {
        let decision = self.limiter.check(&self.limit, &self.name).await?;
        let admitted = decision.is_allowed() && decision.source() == Source::Store;
        if admitted { Ok(true) } else { Err("denied, with nearly everything left".into()) }
    }

    /// Fails unless exactly as much was taken as was admitted.
    pub async fn nothing_lost(&self, admitted: u64) -> Result<(), Failure> {
        let left = self.limiter.peek(&self.limit, &self.name).await?.remaining();
        let taken = u64::from(self.limit.capacity() - left);
        if taken == admitted {
            return Ok(());
        }
        let name = &self.name;
        Err(format!("{admitted} checks of `{name}` were admitted, and {taken} were taken from its limit")
            .into())
    }

    pub fn counts(&self) -> Counts {
        self.limiter.store().store().counts()
    }
}
