//! A hot key.

use std::time::Duration;

use tollgate::{Limit, Limiter, Source};
use tollgate_store_cassandra::{Config, Stats};

use super::{CoalescedStore, connect};
use crate::redis::subject::Failure;

pub struct HotKey {
    limiter: Limiter<CoalescedStore>,
    /// No run exhausts it, and it refills nothing during a run: what remains shows how much was consumed.
    limit: Limit,
    name: String,
}

impl HotKey {
    pub async fn connect(config: Config, name: &str) -> Result<Self, Failure> {
        let limit = Limit::per(1_000_000_000, Duration::from_secs(365 * 86_400)).fixed_window().anchored();
        let limiter = Limiter::new(connect(config).await?);
        Ok(Self { limiter, limit: limit.build("api")?, name: name.to_owned() })
    }

    /// Makes a check. Returns an error if it is denied.
    pub async fn check(&self) -> Result<bool, Failure> {
        let decision = self.limiter.check(&self.limit, &self.name).await?;
        let admitted = decision.is_allowed() && decision.source() == Source::Store;
        if admitted { Ok(true) } else { Err("denied, although the limit is not exhausted".into()) }
    }

    /// Fails if the consumed amount differs from the number of admitted checks.
    pub async fn verify_count(&self, admitted: u64) -> Result<(), Failure> {
        let remaining = self.limiter.peek(&self.limit, &self.name).await?.remaining();
        let consumed = u64::from(self.limit.capacity() - remaining);
        if consumed == admitted {
            return Ok(());
        }
        let name = &self.name;
        Err(format!("{admitted} checks of `{name}` were admitted, but {consumed} were consumed").into())
    }

    pub fn stats(&self) -> Stats {
        self.limiter.store().store().stats()
    }
}
