//! A store by its URL.

use tollgate_core::{AnyStore, ErrorKind, Limiter, StoreError};

/// A limiter on the store that `url` names, so that a program changes its store by configuration alone.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory://` | this process's memory | `memory`, on by default |
/// | `redis://…`, `rediss://…`, `redis+sentinel://…`, `redis+cluster://…`, `redis+shards://…` | Redis | `redis` |
/// | `cassandra://host,…/keyspace` | Cassandra, with [`Coalesced`](crate::resilience::Coalesced) around it | `cassandra` |
///
/// A server that is not there yet is no error here: calls say so until it is. What is wrong with the URL is one, and so is
/// a store that this program was built without. Cassandra has to have its keyspace and table:
/// `tollgate::cassandra::Config::create_schema` makes them.
///
/// ```
/// use tollgate::Limit;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
            // One transaction at a time for a key: what comes meanwhile goes with the next, instead of racing it.
            let gathered = crate::resilience::Coalesced::new(store).in_flight(1).patience(CASSANDRA_PATIENCE);
            Ok(Limiter::new(AnyStore::new(gathered)))
        }
        #[cfg(not(feature = "memory"))]
        "memory" => Err(left_out("memory")),
        #[cfg(not(feature = "redis"))]
        "redis" | "rediss" => Err(left_out("redis")),
        #[cfg(not(feature = "cassandra"))]
        "cassandra" => Err(left_out("cassandra")),
        _ => Err(StoreError::new(
            ErrorKind::Refused,
            // Not the URL itself: it may hold a password.
            "the URL of the store names none that there is; use memory://, redis://host or cassandra://host/keyspace",
        )),
    }
}

/// As long as the store waits for one node: after that, a call for the same key is better sent than kept waiting.
#[cfg(feature = "cassandra")]
const CASSANDRA_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(not(all(feature = "memory", feature = "redis", feature = "cassandra")))]
fn left_out(feature: &str) -> StoreError {
    let message = format!(
        "this program was built without the store that the URL names; add the feature `{feature}` of tollgate"
    );
    StoreError::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_names_no_store_is_refused_with_advice() {
        for url in ["", "localhost:6379", "http://user:secret@localhost", "memcached://a"] {
            let error = connect(url).await.expect_err("no store").to_string();
            assert!(error.contains("use memory://, redis://") && !error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(any(feature = "redis", feature = "cassandra")))]
    #[tokio::test]
    async fn a_store_that_was_left_out_names_its_feature() {
        for name in ["redis", "cassandra"] {
            let error = connect(&format!("{name}://localhost/limits")).await.expect_err("left out");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("feature `{name}`")), "{error}");
        }
    }
}
