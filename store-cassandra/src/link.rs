//! The connection to a cluster: made when it is first needed, with its statements prepared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};
use tollgate_core::StoreError;

use crate::config::Settings;
use crate::error;
use crate::pace;
use crate::routing::{IfNothingHappened, Replicas};
use crate::schema::Table;
use crate::url::Target;

/// How many nodes are tried in turn before the first is tried again.
pub(crate) const TURNS: usize = 3;
/// How long a cluster that could not be connected to is left alone. Calls fail at once meanwhile.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a node on a connection without traffic is asked whether it is there. One that takes longer than a call may has
/// its connections closed, and is not asked any more; but not sooner than this: servers pause to collect garbage.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// A cluster that may not be there yet.
#[derive(Debug)]
pub(crate) struct Link(Arc<Connecting>);

#[derive(Debug)]
struct Connecting {
    target: Target,
    table: Table,
    settings: Settings,
    connected: OnceCell<Connected>,
    /// Why the last attempt failed, and when.
    failed: Mutex<Option<(Instant, StoreError)>>,
}

/// A session with what is sent through it.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) session: Session,
    /// One for each turn.
    pub(crate) statements: [Statements; TURNS],
}

#[derive(Debug)]
pub(crate) struct Statements {
    /// Time-to-live, state after, key, limit, state before.
    pub(crate) update: PreparedStatement,
    /// Key, limit, state before: a condition that changes nothing.
    pub(crate) guard: PreparedStatement,
    /// Key, limits.
    pub(crate) select: PreparedStatement,
    /// For batches of them.
    pub(crate) profile: ExecutionProfileHandle,
}

impl Link {
    pub(crate) fn new(target: Target, table: Table, settings: Settings) -> Self {
        let (connected, failed) = (OnceCell::new(), Mutex::new(None));
        Self(Arc::new(Connecting { target, table, settings, connected, failed }))
    }

    /// The connection. Callers who come while it is being made wait for it together, and if they go it is made all the same.
    pub(crate) async fn get(&self) -> Result<&Connected, StoreError> {
        if let Some(connected) = self.0.connected.get() {
            return Ok(connected);
        }
        let connecting = Arc::clone(&self.0);
        let made = tokio::spawn(async move { connecting.get().await.map(|_| ()) }).await;
        made.map_err(error::not_connecting)??;
        self.0.connected.get().ok_or_else(error::late)
    }
}

impl Connecting {
    async fn get(&self) -> Result<&Connected, StoreError> {
        self.connected
            .get_or_try_init(async || {
                if let Some((at, error)) = &*self.failed()
                    && at.elapsed() < PAUSE
                {
                    return Err(error.clone());
                }
                // Seldom made, and large: whoever may have to would carry it about.
                let made =
                    timeout(self.settings.connect_timeout.saturating_mul(5), Box::pin(self.connect())).await;
                let made = made.unwrap_or_else(|_| Err(error::late()));
                *self.failed() = made.as_ref().err().map(|error| (pace::now(), error.clone()));
                made
            })
            .await
    }

    fn failed(&self) -> MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Connected, StoreError> {
        let session = session(&self.target, &self.settings).await?;
        self.table.check(&session, self.settings.serial).await?;
        let table = self.table.quoted();
        let prepare =
            async |text: String| session.prepare(text).await.map_err(|cause| error::not_prepared(&cause));
        let update = prepare(format!(
            "UPDATE {table} USING TTL ? SET state = ? WHERE key = ? AND limit_name = ? IF state = ?"
        ))
        .await?;
        // That column is never set: to remove it is how a transaction holds on to a row that it leaves as it is.
        let guard =
            prepare(format!("DELETE guard FROM {table} WHERE key = ? AND limit_name = ? IF state = ?"))
                .await?;
        let select =
            prepare(format!("SELECT limit_name, state FROM {table} WHERE key = ? AND limit_name IN ?"))
                .await?;
        let statements = Statements { update, guard, select, profile: self.profile(0) };
        let turns = std::array::from_fn(|turn| statements.in_turn(self.profile(turn), self.settings.serial));
        Ok(Connected { session, statements: turns })
    }

    fn profile(&self, turn: usize) -> ExecutionProfileHandle {
        let mut order = DefaultPolicy::builder().token_aware(true);
        if let Some(datacenter) = &self.target.datacenter {
            order = order.prefer_datacenter(datacenter.clone());
        }
        ExecutionProfile::builder()
            .load_balancing_policy(Arc::new(Replicas::new(order.build(), turn)))
            .retry_policy(Arc::new(IfNothingHappened))
            .consistency(self.settings.consistency)
            .serial_consistency(Some(self.settings.serial))
            // The store has its own.
            .request_timeout(None)
            .build()
            .into_handle()
    }
}

impl Statements {
    /// The same, for another node.
    fn in_turn(&self, profile: ExecutionProfileHandle, serial: SerialConsistency) -> Self {
        let [mut update, mut guard, mut select] = [&self.update, &self.guard, &self.select].map(Clone::clone);
        for statement in [&mut update, &mut guard, &mut select] {
            statement.set_execution_profile_handle(Some(profile.clone()));
        }
        // A read that takes part in the agreement: it sees, and ends, what others have begun.
        select.set_consistency(match serial {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        select.set_is_idempotent(true);
        Self { update, guard, select, profile }
    }
}

/// A session, for whatever there is to do.
pub(crate) async fn session(target: &Target, settings: &Settings) -> Result<Session, StoreError> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&target.hosts)
        .connection_timeout(settings.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(settings.call_timeout.max(KEEPALIVE))
        .keyspaces_to_fetch([target.keyspace.clone()]);
    if let Some((user, password)) = &target.login {
        builder = builder.user(user, password);
    }
    let built = (settings.customize)(builder).build().await;
    built.map_err(|cause| error::not_connected(&cause, &target.hosts.join(", ")))
}
