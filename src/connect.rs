//! Stores by URL.

use tollgate_core::{AnyStore, ErrorKind, Limiter, StoreError};

/// Creates a limiter on the store of a URL, so that the store is a matter of configuration.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory://` | this process's memory | `memory`, on by default |
/// | `redis://…`, `rediss://…`, `redis+sentinel://…`, `redis+cluster://…`, `redis+shards://…` | Redis | `redis` |
/// | `cassandra://host,…/keyspace` | Cassandra, wrapped in `tollgate::resilience::Coalesced` | `cassandra` |
///
/// Returns an error if the URL is invalid, if the feature of its store is off, or if Cassandra rejects the credentials or
/// lacks the table (`tollgate::cassandra::Config::create_schema` creates it). A server that cannot be reached is not an
/// error: calls fail until it is reachable.
///
/// ```
/// use tollgate::Limit;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # if !cfg!(feature = "memory") { return Ok(()) }
/// let limiter = tollgate::connect("memory://").await?; // or "redis://127.0.0.1"
/// let api = Limit::per_second(50).burst(100).build("api")?;
/// assert!(limiter.check(&api, "user:42").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Limiter<AnyStore>, StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme.split('+').next().unwrap_or_default() {
        #[cfg(feature = "memory")]
        "memory" => Ok(Limiter::new(AnyStore::new(crate::memory::MemoryStore::new()))),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => {
            let store = crate::redis::RedisStore::connect(url).await?;
            Ok(Limiter::new(AnyStore::new(store)))
        }
        #[cfg(feature = "cassandra")]
        "cassandra" => {
            let store = crate::cassandra::CassandraStore::connect(url).await?;
            // One transaction at a time per key: calls that arrive meanwhile join the next batch instead of competing.
            let coalesced = crate::resilience::Coalesced::builder(store)
                .max_in_flight(1)
                .overtake_after(CASSANDRA_OVERTAKE_AFTER)
                .build()
                .map_err(|error| StoreError::new(ErrorKind::Internal, error.to_string()))?;
            Ok(Limiter::new(AnyStore::new(coalesced)))
        }
        #[cfg(not(feature = "memory"))]
        "memory" => Err(feature_is_off("memory")),
        #[cfg(not(feature = "redis"))]
        "redis" | "rediss" => Err(feature_is_off("redis")),
        #[cfg(not(feature = "cassandra"))]
        "cassandra" => Err(feature_is_off("cassandra")),
        _ => Err(StoreError::new(
            ErrorKind::Refused,
            // Without the URL: it may contain a password.
            "unknown scheme in the URL of the store; use memory://, redis://host or cassandra://host/keyspace",
        )),
    }
}

/// The time that the store waits for one node. A call for the same key waits no longer than that for its predecessor.
#[cfg(feature = "cassandra")]
const CASSANDRA_OVERTAKE_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(not(all(feature = "memory", feature = "redis", feature = "cassandra")))]
fn feature_is_off(feature: &str) -> StoreError {
    let message = format!(
        "the store of this URL is not compiled in; enable the feature `{feature}` of the crate tollgate"
    );
    StoreError::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_scheme_is_an_error_that_lists_the_known_ones() {
        for url in ["", "localhost:6379", "http://user:secret@localhost", "memcached://a"] {
            let error = connect(url).await.expect_err("unknown scheme").to_string();
            assert!(error.contains("use memory://, redis://") && !error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(any(feature = "redis", feature = "cassandra")))]
    #[tokio::test]
    async fn a_store_that_is_not_compiled_in_names_its_feature() {
        for name in ["redis", "cassandra"] {
            let error = connect(&format!("{name}://localhost/limits")).await.expect_err("not compiled in");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("feature `{name}`")), "{error}");
        }
    }
}
