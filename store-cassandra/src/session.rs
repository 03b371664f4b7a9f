//! The session with a cluster: opened when it is first needed, with its statements prepared.
//!
//! A session belongs to the runtime that opened it. When that runtime ends, the driver's tasks end with it, and the
//! next call opens another session on its own runtime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::{Instant, timeout};
use tollgate_core::StoreError;

use crate::backoff;
use crate::error;
use crate::options::StoreOptions;
use crate::routing::{PreferredReplica, RetryIfNotExecuted};
use crate::schema::Table;
use crate::url::ClusterUrl;

/// How many replicas of a partition are tried in turn before the first is tried again.
const REPLICAS: usize = 3;
/// How long calls fail at once after a failed attempt to connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// How often an idle connection is checked. A node that takes longer than a call may take gets its connections
/// closed, and is not used any more; but never sooner than this, because servers pause to collect garbage.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// A session with a cluster that may not be reachable yet, and the statements for a table.
#[derive(Debug)]
pub(crate) struct LazySession<S = LimitStatements>(Arc<Connector<S>>);

#[derive(Debug)]
struct Connector<S> {
    url: ClusterUrl,
    table: Table,
    options: StoreOptions,
    session: RwLock<Option<Arc<PreparedSession<S>>>>,
    /// Held while a session is opened, so that only one is.
    opening: AsyncMutex<()>,
    /// When and why the last attempt failed.
    last_failure: Mutex<Option<(Instant, StoreError)>>,
}

/// A session and its prepared statements.
#[derive(Debug)]
pub(crate) struct PreparedSession<S = LimitStatements> {
    pub(crate) session: Session,
    /// One set for each replica to start with.
    statements: [S; REPLICAS],
    /// The other end is in a task of the session's runtime: closed means that the runtime has ended.
    runtime: oneshot::Sender<()>,
}

/// The prepared statements for a table.
pub(crate) trait Statements: Sized + Send + Sync + 'static {
    /// Prepares the statements.
    fn prepare(session: &Session, table: &Table) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// Returns these statements for requests that start with the replica of a profile.
    fn with_profile(&self, profile: &ExecutionProfileHandle, serial: SerialConsistency) -> Self;
}

/// The statements for the table of limits.
#[derive(Debug)]
pub(crate) struct LimitStatements {
    /// Values: time-to-live, new state, key, limit, expected state.
    pub(crate) update: PreparedStatement,
    /// Values: key, limit, expected state. A condition that changes nothing.
    pub(crate) guard: PreparedStatement,
    /// Values: key, limits.
    pub(crate) select: PreparedStatement,
    /// The profile for batches of these statements.
    pub(crate) profile: Option<ExecutionProfileHandle>,
}

impl<S> PreparedSession<S> {
    /// Returns the statements for requests that start with the given replica.
    pub(crate) fn statements(&self, replica: usize) -> &S {
        &self.statements[replica % REPLICAS]
    }
}

impl<S: Statements> LazySession<S> {
    pub(crate) fn new(url: ClusterUrl, table: Table, options: StoreOptions) -> Self {
        let (session, opening, last_failure) = (RwLock::default(), AsyncMutex::default(), Mutex::default());
        Self(Arc::new(Connector { url, table, options, session, opening, last_failure }))
    }

    /// Returns the session, and opens it if there is none. Concurrent callers wait for the same attempt, which
    /// continues if they are cancelled.
    pub(crate) async fn get(&self) -> Result<Arc<PreparedSession<S>>, StoreError> {
        if let Some(session) = self.0.current() {
            return Ok(session);
        }
        let connector = Arc::clone(&self.0);
        tokio::spawn(async move { connector.get().await }).await.map_err(error::connect_task_ended)?
    }
}

impl<S: Statements> Connector<S> {
    /// Returns the session if there is one whose runtime has not ended.
    fn current(&self) -> Option<Arc<PreparedSession<S>>> {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().filter(|session| !session.runtime.is_closed()).map(Arc::clone)
    }

    async fn get(&self) -> Result<Arc<PreparedSession<S>>, StoreError> {
        let _opening = self.opening.lock().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        if let Some((at, error)) = &*self.last_failure()
            && at.elapsed() < RECONNECT_DELAY
        {
            return Err(error.clone());
        }
        // Boxed: the future is large and rarely polled, and every caller's future would contain it.
        let connected =
            timeout(self.options.connect_timeout.saturating_mul(5), Box::pin(self.connect())).await;
        let connected = connected.unwrap_or_else(|_| Err(error::timed_out())).map(Arc::new);
        *self.last_failure() = connected.as_ref().err().map(|error| (backoff::now(), error.clone()));
        if let Ok(session) = &connected {
            *self.session.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(session));
        }
        connected
    }

    fn last_failure(&self) -> MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<PreparedSession<S>, StoreError> {
        let session = open(&self.url, &self.options).await?;
        self.table.check(&session, self.options.serial_consistency).await?;
        let statements = S::prepare(&session, &self.table).await?;
        let statements = std::array::from_fn(|replica| {
            statements.with_profile(&self.profile(replica), self.options.serial_consistency)
        });
        let (runtime, replaced) = oneshot::channel();
        tokio::spawn(replaced);
        Ok(PreparedSession { session, statements, runtime })
    }

    /// Returns the profile for requests that start with the given replica.
    fn profile(&self, replica: usize) -> ExecutionProfileHandle {
        let mut order = DefaultPolicy::builder().token_aware(true);
        if let Some(datacenter) = &self.url.datacenter {
            order = order.prefer_datacenter(datacenter.clone());
        }
        ExecutionProfile::builder()
            .load_balancing_policy(Arc::new(PreferredReplica::new(order.build(), replica)))
            .retry_policy(Arc::new(RetryIfNotExecuted))
            .consistency(self.options.consistency)
            .serial_consistency(Some(self.options.serial_consistency))
            // The store has its own timeouts.
            .request_timeout(None)
            .build()
            .into_handle()
    }
}

impl Statements for LimitStatements {
    async fn prepare(session: &Session, table: &Table) -> Result<Self, StoreError> {
        let table = table.quoted();
        let update = prepare(
            session,
            format!("UPDATE {table} USING TTL ? SET state = ? WHERE key = ? AND limit_name = ? IF state = ?"),
        )
        .await?;
        // The column `guard` is never set. Deleting it makes a row a condition of a transaction without changing it.
        let guard = prepare(
            session,
            format!("DELETE guard FROM {table} WHERE key = ? AND limit_name = ? IF state = ?"),
        )
        .await?;
        let select = prepare(
            session,
            format!("SELECT limit_name, state FROM {table} WHERE key = ? AND limit_name IN ?"),
        )
        .await?;
        Ok(Self { update, guard, select, profile: None })
    }

    fn with_profile(&self, profile: &ExecutionProfileHandle, serial: SerialConsistency) -> Self {
        let [mut update, mut guard, mut select] = [&self.update, &self.guard, &self.select].map(Clone::clone);
        for statement in [&mut update, &mut guard, &mut select] {
            statement.set_execution_profile_handle(Some(profile.clone()));
        }
        set_serial_read(&mut select, serial);
        Self { update, guard, select, profile: Some(profile.clone()) }
    }
}

/// Makes a query a serial read: it sees all applied transactions, and completes those that are in progress.
pub(crate) fn set_serial_read(select: &mut PreparedStatement, serial: SerialConsistency) {
    select.set_consistency(match serial {
        SerialConsistency::Serial => Consistency::Serial,
        SerialConsistency::LocalSerial => Consistency::LocalSerial,
    });
    select.set_is_idempotent(true);
}

pub(crate) async fn prepare(session: &Session, text: String) -> Result<PreparedStatement, StoreError> {
    session.prepare(text).await.map_err(|cause| error::from_prepare(&cause))
}

/// Opens a session with the driver.
pub(crate) async fn open(url: &ClusterUrl, options: &StoreOptions) -> Result<Session, StoreError> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&url.hosts)
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(options.call_timeout.max(KEEPALIVE))
        .keyspaces_to_fetch([url.keyspace.clone()]);
    if let Some((user, password)) = &url.credentials {
        builder = builder.user(user, password);
    }
    let session = (options.customize_session)(builder).build().await;
    session.map_err(|cause| error::from_connect(&cause, &url.hosts.join(", ")))
}
