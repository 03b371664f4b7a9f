//! What is measured: a limiter behind one asynchronous method, and how to build it.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::keys::{Keys, Walk};
use crate::subject::Quota;

pub type Failure = Box<dyn Error + Send + Sync>;
pub type Later<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// The limit of all subjects. No run reaches it, and nothing expires while other subjects are measured. One unit is a
/// whole millisecond, as some limiters have no finer resolution.
pub const QUOTA: Quota = Quota { count: 1_000_000, period: Duration::from_secs(1_000) };

/// One limiter under test, shared by all tasks that call it.
pub trait Remote: Send + Sync + 'static {
    /// The number of checks in one call.
    const CHECKS: u32 = 1;

    /// Makes one call for the next [`CHECKS`](Self::CHECKS) keys. Returns whether all of its checks were admitted.
    fn call(&self, keys: &mut Walk<'_>) -> impl Future<Output = Result<bool, Failure>> + Send;
}

/// A [`Remote`] of any type: one dynamic dispatch per task, not per call.
pub trait Runner: Send + Sync {
    fn checks_per_call(&self) -> u32;

    /// Makes `calls` calls, one after the other, along the keys from the `start`th on. Returns how many were admitted.
    fn run(self: Arc<Self>, keys: Arc<Keys>, start: usize, calls: u32) -> Later<u32>;
}

impl<R: Remote> Runner for R {
    fn checks_per_call(&self) -> u32 {
        R::CHECKS
    }

    fn run(self: Arc<Self>, keys: Arc<Keys>, start: usize, calls: u32) -> Later<u32> {
        Box::pin(async move {
            let mut walk = keys.walk(0, start);
            let mut admitted = 0;
            for _ in 0..calls {
                admitted += u32::from(self.call(&mut walk).await?);
            }
            Ok(admitted)
        })
    }
}

/// Where a subject keeps its state.
#[derive(Clone)]
pub struct Place {
    pub url: String,
    /// A part of the names of all its keys in Redis, unique to the subject. It contains no colon.
    pub namespace: String,
}

/// Connects and builds a limiter.
pub type Build = fn(Place) -> Later<Arc<dyn Runner>>;

/// A row of the table.
pub struct Contestant {
    pub name: &'static str,
    pub build: Build,
    /// Another project's limiter: if it cannot do a workload, that is a finding, not an error.
    pub peer: bool,
    /// The names of the workloads in which it takes part.
    pub workloads: &'static [&'static str],
}

/// Erases the type of a limiter that is being built, for a [`Build`].
pub fn runner<R: Remote>(
    building: impl Future<Output = Result<R, Failure>> + Send + 'static,
) -> Later<Arc<dyn Runner>> {
    Box::pin(async move { Ok(Arc::new(building.await?) as Arc<dyn Runner>) })
}
