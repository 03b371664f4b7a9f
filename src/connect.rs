//! Stores by URL.

use tollgate_core::{AnyStore, ErrorKind, Limiter, StoreError};

/// Creates a limiter on the store of a URL, so that the store is a matter of configuration.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory://` | this process's memory | `memory`, on by default |
/// | `redis://…`, `rediss://…`, `redis+unix://…`, `redis+sentinel://…`, `redis+cluster://…`, `redis+shards://…` | Redis | `redis` |
/// | `cassandra://host,…/keyspace` | Cassandra, wrapped in `tollgate::resilience::Coalesced` | `cassandra` |
///
/// Returns an error if the URL is invalid or has a part that its store does not know, if the feature of its store is
/// off, or if Cassandra rejects the credentials or lacks the table (`tollgate::cassandra::Config::create_schema`
/// creates it). A server that cannot be reached is not an error, nor is a Redis that rejects the credentials: calls
/// fail until the server accepts them. To fail at startup instead, create the store by its own `Config` with
/// `require_reachable`; `ping` of the store checks it at any later time.
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
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    // The schemes of Redis have variants, such as redis+cluster.
    let store = if scheme.starts_with("redis+") || scheme.starts_with("rediss+") { "redis" } else { &scheme };
    match store {
        #[cfg(feature = "memory")]
        "memory" if url["memory".len()..] == *"://" => {
            Ok(Limiter::new(AnyStore::new(crate::memory::MemoryStore::new())))
        }
        #[cfg(feature = "memory")]
        "memory" => Err(StoreError::new(
            ErrorKind::Refused,
            "the URL of the memory store has no other parts; use memory://, and memory::Config for its options",
        )),
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

    #[cfg(feature = "memory")]
    #[tokio::test]
    async fn the_url_of_the_memory_store_has_no_other_parts() {
        for url in ["memory://", "MEMORY://", "Memory://"] {
            assert!(connect(url).await.is_ok(), "{url}");
        }
        for url in
            ["memory:", "memory:/", "memory://foo", "memory://?max_keys=1", "memory://#a", "memory:///"]
        {
            let error = connect(url).await.expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Refused, "{url}");
            assert!(error.to_string().contains("use memory://, and memory::Config"), "{error}");
        }
        let error = connect("memory+cluster://").await.expect_err("an unknown scheme").to_string();
        assert!(error.contains("unknown scheme"), "{error}");
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn the_schemes_of_redis_are_those_of_its_store() {
        for url in ["REDIS://a,b", "rediss+Cluster://h/3", "redis+sentinel://h", "redis+ring://h", "redis:"] {
            let error = connect(url).await.expect_err(url).to_string();
            assert!(error.contains("the redis URL"), "{url}: {error}");
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
