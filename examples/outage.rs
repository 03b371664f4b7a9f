//! A web handler whose Redis is killed. During the outage a fallback store in memory enforces a share of the limit.
//! After the outage the limit is exact again, and what was granted meanwhile is reconciled with Redis.
//!
//! ```sh
//! cargo run --example outage --features redis,resilience    # needs redis-server
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::memory::MemoryStore;
use tollgate::redis::RedisStore;
use tollgate::resilience::{FallbackStore, Guarded, Share};
use tollgate::{BreakerState, Limit, Limiter};

type Failure = Box<dyn Error + Send + Sync>;

struct App {
    limiter: Limiter<Guarded<RedisStore>>,
    api: Limit,
}

async fn handler(State(app): State<Arc<App>>) -> (StatusCode, String) {
    match app.limiter.check(&app.api, "user:42").await {
        Ok(decision) if decision.is_allowed() => (
            StatusCode::OK,
            format!("{} remaining, decided by the {}", decision.remaining(), decision.source()),
        ),
        Ok(decision) => (StatusCode::TOO_MANY_REQUESTS, format!("denied by the {}", decision.source())),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let files = tempfile::tempdir()?;
    let port = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?.port();
    // With an append-only file, so that no state is lost when the server is killed.
    let start_redis = || Redis::start(port, files.path().to_str().unwrap_or("."));
    let redis = start_redis()?;

    let store = RedisStore::connect(&format!("redis://127.0.0.1:{port}")).await?;
    while store.ping().await.is_err() {
        pause().await;
    }
    // Four such servers share the limit: during an outage, each of them enforces a quarter of it.
    let guarded = Guarded::builder(store)
        .on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(4)))
        // Default: 20 ms. Longer, so that the example ends the same way on a busy machine.
        .deadline(Duration::from_secs(1))
        .build()?;
    let app = Arc::new(App { limiter: Limiter::new(guarded), api: Limit::per_hour(40).build("api")? });

    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/", get(handler)).with_state(Arc::clone(&app));
    tokio::spawn(async move { axum::serve(listener, router).await });

    println!("Redis is running; the limit is 40 per hour:");
    let before = visit(address, 20).await?;

    println!("\nRedis is killed:");
    drop(redis);
    let during = visit(address, 20).await?;
    println!("  {:?}", app.limiter.store().stats());

    println!("\nRedis is started again:");
    let _redis = start_redis()?;
    while app.limiter.store().breaker_state() != BreakerState::Closed {
        // A peek is enough to probe the store, and consumes nothing.
        app.limiter.peek(&app.api, "user:42").await?.remaining();
        pause().await;
    }
    let after = visit(address, 20).await?;

    println!("\nallowed: {before} + {during} + {after} of 40");
    assert_eq!([before, during, after], [20, 10, 10], "a quarter during the outage, and 40 in total");
    Ok(())
}

/// Sends requests and prints the first and the last response. Returns how many were allowed.
async fn visit(address: SocketAddr, times: u32) -> Result<u32, Failure> {
    let mut allowed = 0;
    for time in 1..=times {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut response = String::new();
        connection.read_to_string(&mut response).await?;
        allowed += u32::from(response.starts_with("HTTP/1.1 200"));
        if time == 1 || time == times {
            let (status, body) = (response.lines().next(), response.lines().last());
            println!("  request {time:2}: {}, {}", status.unwrap_or_default(), body.unwrap_or_default());
        }
    }
    println!("  {allowed} of {times} allowed");
    Ok(allowed)
}

#[expect(clippy::disallowed_methods, reason = "the server does not signal that it is ready")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// A server process that is killed on drop.
struct Redis(Child);

impl Redis {
    fn start(port: u16, directory: &str) -> Result<Self, Failure> {
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", directory])
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start redis-server ({error}): is it installed?"))?;
        Ok(Self(child))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Killed without a shutdown, as in an outage. An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
