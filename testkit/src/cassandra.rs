//! One Cassandra node.

use std::fmt;
use std::net::Ipv4Addr;

use tokio::sync::OnceCell;

use crate::cql::{self, Consistency, CqlError, Row};
use crate::files::Files;
use crate::launch::{Launch, Server};
use crate::port;
use crate::wait::Deadline;

/// The port for clients, the same on every address.
const PORT: u16 = 9042;
/// The port for other nodes.
const NODE_PORT: u16 = 7000;

/// Settings beside the addresses, which a test can override. The commit log is synced before a write is acknowledged,
/// so that a killed node loses no acknowledged write. Sizes are small, since several nodes share a machine.
const DEFAULTS: &[(&str, &str)] = &[
    ("cluster_name", "tollgate"),
    ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
    ("endpoint_snitch", "SimpleSnitch"),
    ("num_tokens", "1"),
    ("paxos_variant", "v2"),
    ("commitlog_sync", "batch"),
    ("commitlog_segment_size", "8MiB"),
    ("memtable_heap_space", "64MiB"),
    ("memtable_offheap_space", "64MiB"),
    ("concurrent_reads", "8"),
    ("concurrent_writes", "8"),
    ("concurrent_compactors", "1"),
    ("auto_snapshot", "false"),
];

/// Settings for a node that no test kills: its commit log is synced in the background, which makes lightweight
/// transactions several times as fast.
pub const QUICK: &[(&str, &str)] = &[("commitlog_sync", "periodic"), ("commitlog_sync_period", "10000ms")];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("MAX_HEAP_SIZE", "512M"),
    // The image requires both sizes or neither.
    ("HEAP_NEWSIZE", "128M"),
];

/// Only Java's fast compiler: a node is too short-lived for more, and a cluster of three starts in two thirds of the
/// time.
const FAST_COMPILER: &str = "-XX:TieredStopAtLevel=1";
/// Java's default compilers.
const DEFAULT_COMPILERS: &str = "-XX:+TieredCompilation";
/// Logs warnings and errors only.
const LOGBACK: &str = r#"<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %logger{0}: %message%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"#;

/// A real Cassandra node. Dropping it ends the node and deletes its data.
///
/// Every node has a loopback address of its own, since the ports are the same for all of them.
#[derive(Debug)]
pub struct Cassandra {
    address: Ipv4Addr,
    launch: Launch,
    server: Option<Server>,
    // Last, so that the files are deleted after the node has ended.
    _files: Files,
}

/// Returns the URL of a Cassandra for a test suite: `TOLLGATE_TEST_CASSANDRA`, or else that of a node that runs for as
/// long as this process.
pub async fn cassandra_url() -> String {
    static SHARED: OnceCell<Cassandra> = OnceCell::const_new();
    match std::env::var("TOLLGATE_TEST_CASSANDRA") {
        Ok(url) => url,
        Err(_) => SHARED.get_or_init(async || Cassandra::start_with(QUICK).await).await.url(),
    }
}

impl Cassandra {
    /// Starts a node and waits until it responds.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a node for measurements: after a warm-up it is as fast as a node in production. It takes longer to start,
    /// and may lose its last seconds of writes when it is killed.
    pub async fn for_measuring() -> Self {
        let address = Self::free_address();
        Self::launch_with(address, &[address], "1", QUICK, DEFAULT_COMPILERS).await
    }

    /// Starts a node with additional settings, as in `cassandra.yaml`: `[("authenticator", "PasswordAuthenticator")]`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let address = Self::free_address();
        // A short ring delay, since there are no other nodes to wait for.
        Self::launch(address, &[address], "1", settings).await
    }

    /// Returns an address for a node.
    pub(crate) fn free_address() -> Ipv4Addr {
        port::free_address(&[PORT, NODE_PORT])
    }

    /// Starts a node of a cluster, which discovers the others through the seeds. `ring_delay` is how long it waits for
    /// gossip of the others, in milliseconds.
    pub(crate) async fn launch(
        address: Ipv4Addr,
        seeds: &[Ipv4Addr],
        ring_delay: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::launch_with(address, seeds, ring_delay, settings, FAST_COMPILER).await
    }

    async fn launch_with(
        address: Ipv4Addr,
        seeds: &[Ipv4Addr],
        ring_delay: &str,
        settings: &[(&str, &str)],
        jvm_options: &'static str,
    ) -> Self {
        let files = Files::new();
        let directory = files.path().display();
        let configuration = configuration(address, seeds, settings);
        std::fs::write(files.path().join("cassandra.yaml"), configuration)
            .expect("the node's configuration is written");
        std::fs::write(files.path().join("logback.xml"), LOGBACK)
            .expect("the node's configuration is written");
        let properties = [
            ("cassandra.config", format!("file://{directory}/cassandra.yaml")),
            ("logback.configurationFile", format!("file://{directory}/logback.xml")),
            ("cassandra.storagedir", directory.to_string()),
            ("cassandra.logdir", directory.to_string()),
            ("cassandra.ring_delay_ms", ring_delay.to_owned()),
            ("cassandra.skip_wait_for_gossip_to_settle", "0".to_owned()),
            ("cassandra.superuser_setup_delay_ms", "0".to_owned()),
            // Any free port: two nodes with the image's default port could not both start.
            ("cassandra.jmx.local.port", "0".to_owned()),
        ];
        let mut arguments = vec!["-R".to_owned(), "-f".to_owned()];
        arguments.extend(properties.iter().map(|(name, value)| format!("-D{name}={value}")));
        let launch = Launch {
            image: std::env::var("TOLLGATE_TEST_CASSANDRA_IMAGE")
                .unwrap_or_else(|_| "cassandra:5".to_owned()),
            program: "cassandra",
            arguments,
            environment: [ENVIRONMENT, &[("JVM_EXTRA_OPTS", jvm_options)]].concat(),
            files: Some(files.path().to_owned()),
        };
        let mut cassandra = Self { address, launch, server: None, _files: files };
        cassandra.start_again().await;
        cassandra
    }

    /// Returns `127.x.y.z:9042`, the same after each start.
    pub fn address(&self) -> String {
        format!("{}:{PORT}", self.address)
    }

    /// Returns `cassandra://127.x.y.z:9042`.
    pub fn url(&self) -> String {
        format!("cassandra://{}", self.address())
    }

    /// Returns whether it was started and not killed. A frozen node counts as running.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Kills it at once, without a shutdown that its clients or other nodes would notice.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await;
        }
    }

    /// Starts it on the same address with its data. Kills it first if it is running.
    pub async fn start_again(&mut self) {
        self.kill().await;
        let deadline = Deadline::long("a node that responds");
        self.server = Some(self.launch.start(deadline, || self.responds()).await);
    }

    /// Queries the node: it may listen before it has created its default user.
    async fn responds(&self) -> bool {
        self.try_query_at("SELECT key FROM system.local", Consistency::One).await.is_ok()
    }

    /// Suspends it: connections stay open, and it does not respond until [`thaw`](Self::thaw).
    pub async fn freeze(&self) {
        self.running().freeze().await;
    }

    /// Resumes it after [`freeze`](Self::freeze).
    pub async fn thaw(&self) {
        self.running().thaw().await;
    }

    fn running(&self) -> &Server {
        self.server.as_ref().expect("the node was not killed")
    }

    /// Sends a query at consistency `QUORUM`, on a connection of its own. Panics if it fails.
    pub async fn query(&self, query: &str) -> Vec<Row> {
        self.try_query(query).await.unwrap_or_else(|error| panic!("{query} on {self}: {error}"))
    }

    /// Sends a query at consistency `QUORUM`, on a connection of its own.
    pub async fn try_query(&self, query: &str) -> Result<Vec<Row>, CqlError> {
        self.try_query_at(query, Consistency::Quorum).await
    }

    /// Sends a query on a connection of its own. If the node requires a login, as the user `cassandra`.
    pub async fn try_query_at(&self, query: &str, consistency: Consistency) -> Result<Vec<Row>, CqlError> {
        cql::query((self.address, PORT), query, consistency).await
    }
}

impl fmt::Display for Cassandra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.launch, self.address())
    }
}

/// Returns the text of a `cassandra.yaml`. A node does not start if a setting occurs twice.
fn configuration(address: Ipv4Addr, seeds: &[Ipv4Addr], settings: &[(&str, &str)]) -> String {
    let seeds: Vec<_> = seeds.iter().map(|seed| format!("{seed}:{NODE_PORT}")).collect();
    let defaults = DEFAULTS.iter().filter(|(name, _)| !settings.iter().any(|(other, _)| other == name));
    let settings: Vec<_> = defaults.chain(settings).map(|(name, value)| format!("{name}: {value}")).collect();
    format!(
        "listen_address: {address}
rpc_address: {address}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{ seeds: \"{}\" }}]
{}
",
        seeds.join(","),
        settings.join("\n")
    )
}
