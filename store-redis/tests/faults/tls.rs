//! TLS, with certificates of a private authority.

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, daily, in_time};

/// A server with a certificate, and the root certificate of its authority.
struct TlsServer {
    redis: Redis,
    authority: String,
    _files: TempDir,
}

/// Returns a configuration with long timeouts: a handshake takes a while on a busy machine.
fn config(server: &TlsServer) -> Config {
    let timeout = Duration::from_secs(30);
    Config::new(server.redis.url()).call_timeout(timeout).connect_timeout(timeout)
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    (certificate, Issuer::new(params, key))
}

async fn server_for(name: &str) -> TlsServer {
    let files = tempfile::tempdir().expect("a directory");
    // The server may run as another user.
    let open = |path: &Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(if path.is_dir() { 0o755 } else { 0o644 });
        std::fs::set_permissions(path, mode).expect("its own file");
    };
    let (authority, issuer) = authority();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
    let written =
        [("ca.pem", authority.clone()), ("cert.pem", certificate), ("key.pem", key.serialize_pem())];
    let [ca, cert, key] = written.map(|(name, text)| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("a file");
        open(&path);
        path.to_str().expect("a path").to_owned()
    });
    open(files.path());
    let arguments = [
        ["--tls-ca-cert-file", &ca],
        ["--tls-cert-file", &cert],
        ["--tls-key-file", &key],
        ["--tls-auth-clients", "no"],
    ];
    let redis = Redis::start_with_files(files.path(), arguments.as_flattened()).await;
    TlsServer { redis, authority, _files: files }
}

#[tokio::test]
async fn a_trusted_certificate_is_accepted() {
    let server = server_for("127.0.0.1").await;
    assert!(server.redis.url().starts_with("rediss://"));
    let config = config(&server).root_certificate(server.authority);
    let limiter =
        Limiter::new(in_time(config.require_reachable().connect()).await.expect("a trusted certificate"));
    for left in [2, 1, 0] {
        assert_eq!(in_time(limiter.check(&daily(3), KEY)).await.expect("a decision").remaining(), left);
    }
    assert!(in_time(limiter.check(&daily(3), KEY)).await.expect("a decision").is_denied());
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let server = server_for("127.0.0.1").await;
    let refused = (ErrorKind::Refused, Effect::None);
    let messages = ["certificate", "root_certificate"];
    let config = config(&server);
    assert_error(in_time(config.clone().require_reachable().connect()).await, refused, &messages);
    let limiter = Limiter::new(config.clone().connect().await.expect("a store"));
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, refused, &messages);
    // Nor is it accepted with the root certificate of another authority.
    let config = config.root_certificate(authority().0);
    assert_error(in_time(config.require_reachable().connect()).await, refused, &messages);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = server_for("another.example").await;
    let config = config(&server).root_certificate(server.authority);
    let refused = (ErrorKind::Refused, Effect::None);
    assert_error(in_time(config.require_reachable().connect()).await, refused, &["certificate"]);
}

#[tokio::test]
async fn a_plain_connection_to_a_tls_server_is_an_error() {
    let server = server_for("127.0.0.1").await;
    let limiter = Limiter::new(
        RedisStore::connect(&format!("redis://{}", server.redis.address())).await.expect("a store"),
    );
    let unavailable = (ErrorKind::Unavailable, Effect::None);
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, unavailable, &["rediss://"]);
}

#[tokio::test]
async fn a_tls_connection_to_a_plain_server_is_an_error() {
    let redis = Redis::start(&[]).await;
    let limiter =
        Limiter::new(RedisStore::connect(&format!("rediss://{}", redis.address())).await.expect("a store"));
    // The server waits for the rest of what it parses as a command.
    let timeout = (ErrorKind::Timeout, Effect::None);
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, timeout, &["redis://"]);
}
