//! A web handler whose Redis is killed: requests are still served, under a share of the limit, and when Redis is back
//! the limit is exact again, with what passed meanwhile counted.
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
use tollgate::resilience::{Guarded, Local, Share};
use tollgate::{BreakerState, Limit, Limiter};

type Failure = Box<dyn Error + Send + Sync>;

struct App {
    limiter: Limiter<Guarded<RedisStore>>,
    api: Limit,
}

async fn handler(State(app): State<Arc<App>>) -> (StatusCode, String) {
    match app.limiter.check(&app.api, "user:42").await {
        Ok(decision) if decision.is_allowed() => {
            (StatusCode::OK, format!("{} left, decided by the {}", decision.remaining(), decision.source()))
        }
        Ok(decision) => (StatusCode::TOO_MANY_REQUESTS, format!("denied by the {}", decision.source())),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let files = tempfile::tempdir()?;
    let port = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?.port();
    // One that forgets nothing when it is killed; what others forget, they have forgotten.
    let start_redis = || Redis::start(port, files.path().to_str().unwrap_or("."));
    let redis = start_redis()?;

    let store = RedisStore::connect(&format!("redis://127.0.0.1:{port}")).await?;
    while store.reach().await.is_err() {
        pause().await;
    }
    // Four of these servers share the limit: while Redis is away, each goes on with a quarter of it.
    let guarded = Guarded::new(store)
        .on_failure(Local::on(MemoryStore::new(), Share::one_of(4)))
        // 20 ms unless said; this story should end the same way on a busy machine.
        .deadline(Duration::from_secs(1));
    let app = Arc::new(App { limiter: Limiter::new(guarded), api: Limit::per_hour(40).build("api")? });

    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/", get(handler)).with_state(Arc::clone(&app));
    tokio::spawn(async move { axum::serve(listener, router).await });

    println!("40 an hour, and Redis is there:");
    let before = visit(address, 20).await?;

    println!("\nRedis is killed:");
    drop(redis);
    let during = visit(address, 20).await?;
    println!("  {:?}", app.limiter.store().counts());

    println!("\nRedis is started again:");
    let _redis = start_redis()?;
    while app.limiter.store().breaker() != BreakerState::Closed {
        // A look is enough to find out; it takes nothing.
        app.limiter.peek(&app.api, "user:42").await?.remaining();
        pause().await;
    }
    let after = visit(address, 20).await?;

    println!("\npassed: {before} + {during} + {after} of 40");
    assert_eq!([before, during, after], [20, 10, 10], "a quarter in between, and all of it in the end");
    Ok(())
}

/// Makes requests and shows the first and the last answer; says how many passed.
async fn visit(address: SocketAddr, times: u32) -> Result<u32, Failure> {
    let mut passed = 0;
    for time in 1..=times {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        passed += u32::from(answer.starts_with("HTTP/1.1 200"));
        if time == 1 || time == times {
            let (status, body) = (answer.lines().next(), answer.lines().last());
            println!("  request {time:2}: {}, {}", status.unwrap_or_default(), body.unwrap_or_default());
        }
    }
    println!("  {passed} of {times} passed");
    Ok(passed)
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when a server is ready")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// A server that ends with this value.
struct Redis(Child);

impl Redis {
    fn start(port: u16, directory: &str) -> Result<Self, Failure> {
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", directory])
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server does not start ({error}): is it installed?"))?;
        Ok(Self(child))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Without a word, as an outage would be. If it is gone already, so much the better.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
