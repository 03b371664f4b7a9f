//! One Cassandra node.

use std::fmt;
use std::net::Ipv4Addr;

use tokio::sync::OnceCell;

use crate::cql::{self, Consistency, CqlError, Row};
use crate::files::Files;
use crate::launch::{Launch, Server};
use crate::port;
use crate::wait::Deadline;

/// For clients, the same on every address.
const PORT: u16 = 9042;
/// For other nodes.
const NODE_PORT: u16 = 7000;

/// Beside the addresses, unless said otherwise. Written as soon as said, so that a killed node has lost nothing that it
/// promised; small, as several share a machine.
const ALWAYS: &[(&str, &str)] = &[
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

/// For a node that nobody kills: what it promised need not be on its disk at once, which makes transactions several times as
/// quick.
pub const QUICK: &[(&str, &str)] = &[("commitlog_sync", "periodic"), ("commitlog_sync_period", "10000ms")];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("MAX_HEAP_SIZE", "512M"),
    // The image wants both sizes or none.
    ("HEAP_NEWSIZE", "128M"),
];

/// Code compiled in haste: a node lives too short for more, and three start a third sooner.
const IN_HASTE: &str = "-XX:TieredStopAtLevel=1";
/// Code compiled as well as it can be.
const AS_USUAL: &str = "-XX:+TieredCompilation";
/// Says only what went wrong.
const LOGBACK: &str = r#"<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %logger{0}: %message%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"#;

/// A real Cassandra node. Dropped, it is gone with its data.
///
/// It has a loopback address of its own, so that nodes, which cannot choose a port each, do not meet.
#[derive(Debug)]
pub struct Cassandra {
    address: Ipv4Addr,
    launch: Launch,
    server: Option<Server>,
    // Last, so that its files go when it has gone.
    _files: Files,
}

/// Where a suite finds a Cassandra: in `TOLLGATE_TEST_CASSANDRA`, or else a node that lives as long as this process.
pub async fn cassandra_url() -> String {
    static SHARED: OnceCell<Cassandra> = OnceCell::const_new();
    match std::env::var("TOLLGATE_TEST_CASSANDRA") {
        Ok(url) => url,
        Err(_) => SHARED.get_or_init(async || Cassandra::start_with(QUICK).await).await.url(),
    }
}

impl Cassandra {
    /// Starts a node and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a node that is as fast as those of a real cluster, once it has been used for a while. It starts later, and
    /// may forget its last seconds when it is killed.
    pub async fn for_measuring() -> Self {
        let address = Self::free_address();
        Self::launch_compiled(address, &[address], "1", QUICK, AS_USUAL).await
    }

    /// Starts a node with more or other settings, as in `cassandra.yaml`: `[("authenticator", "PasswordAuthenticator")]`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let address = Self::free_address();
        // At once, since there is nobody to wait for.
        Self::launch(address, &[address], "1", settings).await
    }

    /// An address for a node.
    pub(crate) fn free_address() -> Ipv4Addr {
        port::free_address(&[PORT, NODE_PORT])
    }

    /// Starts a node of a cluster, which hears of others from the seeds. How long it takes them for silent, `ring_delay`,
    /// is in milliseconds.
    pub(crate) async fn launch(
        address: Ipv4Addr,
        seeds: &[Ipv4Addr],
        ring_delay: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::launch_compiled(address, seeds, ring_delay, settings, IN_HASTE).await
    }

    async fn launch_compiled(
        address: Ipv4Addr,
        seeds: &[Ipv4Addr],
        ring_delay: &str,
        settings: &[(&str, &str)],
        compiled: &'static str,
    ) -> Self {
        let files = Files::new();
        let directory = files.path().display();
        let configuration = configuration(address, seeds, settings);
        std::fs::write(files.path().join("cassandra.yaml"), configuration).expect("the node's configuration");
        std::fs::write(files.path().join("logback.xml"), LOGBACK).expect("the node's configuration");
        let properties = [
            ("cassandra.config", format!("file://{directory}/cassandra.yaml")),
            ("logback.configurationFile", format!("file://{directory}/logback.xml")),
            ("cassandra.storagedir", directory.to_string()),
            ("cassandra.logdir", directory.to_string()),
            ("cassandra.ring_delay_ms", ring_delay.to_owned()),
            ("cassandra.skip_wait_for_gossip_to_settle", "0".to_owned()),
            ("cassandra.superuser_setup_delay_ms", "0".to_owned()),
            // Any that is free: two nodes with the port that the image sets would not both start.
            ("cassandra.jmx.local.port", "0".to_owned()),
        ];
        let mut arguments = vec!["-R".to_owned(), "-f".to_owned()];
        arguments.extend(properties.iter().map(|(name, value)| format!("-D{name}={value}")));
        let launch = Launch {
            image: std::env::var("TOLLGATE_TEST_CASSANDRA_IMAGE")
                .unwrap_or_else(|_| "cassandra:5".to_owned()),
            program: "cassandra",
            arguments,
            environment: [ENVIRONMENT, &[("JVM_EXTRA_OPTS", compiled)]].concat(),
            files: Some(files.path().to_owned()),
        };
        let mut cassandra = Self { address, launch, server: None, _files: files };
        cassandra.start_again().await;
        cassandra
    }

    /// `127.x.y.z:9042`, the same after each start.
    pub fn address(&self) -> String {
        format!("{}:{PORT}", self.address)
    }

    /// `cassandra://127.x.y.z:9042`.
    pub fn url(&self) -> String {
        format!("cassandra://{}", self.address())
    }

    /// Whether it was started and not killed. A frozen node counts as running.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Kills it at once, without a word to its clients or to other nodes.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await;
        }
    }

    /// Starts it on the same address with the data it had, killing it first if it runs.
    pub async fn start_again(&mut self) {
        self.kill().await;
        let deadline = Deadline::long("a node that answers");
        self.server = Some(self.launch.start(deadline, || self.answers()).await);
    }

    /// Later than it listens, if it has to make its default user first.
    async fn answers(&self) -> bool {
        self.try_query_at("SELECT key FROM system.local", Consistency::One).await.is_ok()
    }

    /// Stops it where it is: connections stay open, and nothing is answered until [`thaw`](Self::thaw).
    pub async fn freeze(&self) {
        self.running().freeze().await;
    }

    /// Lets it go on after [`freeze`](Self::freeze).
    pub async fn thaw(&self) {
        self.running().thaw().await;
    }

    fn running(&self) -> &Server {
        self.server.as_ref().expect("a node that was not killed")
    }

    /// Sends a query, for a quorum, on a connection of its own; panics unless it succeeds.
    pub async fn query(&self, query: &str) -> Vec<Row> {
        self.try_query(query).await.unwrap_or_else(|error| panic!("{query} on {self}: {error}"))
    }

    /// Sends a query, for a quorum, on a connection of its own.
    pub async fn try_query(&self, query: &str) -> Result<Vec<Row>, CqlError> {
        self.try_query_at(query, Consistency::Quorum).await
    }

    /// Sends a query on a connection of its own. Where a password is asked for, as the user `cassandra`.
    pub async fn try_query_at(&self, query: &str, consistency: Consistency) -> Result<Vec<Row>, CqlError> {
        cql::query((self.address, PORT), query, consistency).await
    }
}

impl fmt::Display for Cassandra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.launch, self.address())
    }
}

/// The text of a `cassandra.yaml`. Nodes do not start if a setting is there twice.
fn configuration(address: Ipv4Addr, seeds: &[Ipv4Addr], settings: &[(&str, &str)]) -> String {
    let seeds: Vec<_> = seeds.iter().map(|seed| format!("{seed}:{NODE_PORT}")).collect();
    let usual = ALWAYS.iter().filter(|(name, _)| !settings.iter().any(|(other, _)| other == name));
    let settings: Vec<_> = usual.chain(settings).map(|(name, value)| format!("{name}: {value}")).collect();
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
