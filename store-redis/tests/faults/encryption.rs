//! TLS, with certificates that nobody has heard of.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, assert_error, daily, in_time};

/// A server with a certificate for these names, and the certificate of the authority that signed it.
struct Encrypted {
    redis: Redis,
    authority: String,
    _files: TempDir,
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    (certificate, Issuer::new(params, key))
}

async fn server_for(name: &str) -> Encrypted {
    let files = tempfile::tempdir().expect("a directory");
    // The server may be another user's.
    let open = |path: &Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(if path.is_dir() { 0o755 } else { 0o644 });
        std::fs::set_permissions(path, mode).expect("a file of its own");
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
    Encrypted { redis, authority, _files: files }
}

#[tokio::test]
async fn a_server_whose_authority_is_trusted_is_used() {
    let server = server_for("127.0.0.1").await;
    assert!(server.redis.url().starts_with("rediss://"));
    let config = Config::new(server.redis.url()).root_certificate(server.authority);
    let limiter = Limiter::new(in_time(config.must_be_there().connect()).await.expect("a trusted server"));
    for left in [2, 1, 0] {
        assert_eq!(in_time(limiter.check(&daily(3), KEY)).await.expect("a decision").remaining(), left);
    }
    assert!(in_time(limiter.check(&daily(3), KEY)).await.expect("a decision").is_denied());
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_is_refused() {
    let server = server_for("127.0.0.1").await;
    let refused = (ErrorKind::Refused, Effect::None);
    let says = ["certificate", "root_certificate"];
    let config = Config::new(server.redis.url());
    assert_error(in_time(config.clone().must_be_there().connect()).await, refused, &says);
    let limiter = Limiter::new(config.clone().connect().await.expect("a store"));
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, refused, &says);
    // Nor is it with the certificate of somebody else.
    let config = config.root_certificate(authority().0);
    assert_error(in_time(config.must_be_there().connect()).await, refused, &says);
}

#[tokio::test]
async fn a_server_with_a_certificate_for_another_name_is_refused() {
    let server = server_for("another.example").await;
    let config = Config::new(server.redis.url()).root_certificate(server.authority);
    let refused = (ErrorKind::Refused, Effect::None);
    assert_error(in_time(config.must_be_there().connect()).await, refused, &["certificate"]);
}

#[tokio::test]
async fn plain_words_to_a_server_that_wants_encryption_are_an_error() {
    let server = server_for("127.0.0.1").await;
    let limiter = Limiter::new(
        RedisStore::connect(&format!("redis://{}", server.redis.address())).await.expect("a store"),
    );
    let unavailable = (ErrorKind::Unavailable, Effect::None);
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, unavailable, &["rediss://"]);
}

#[tokio::test]
async fn encrypted_words_to_a_server_that_wants_them_plain_are_an_error() {
    let redis = Redis::start(&[]).await;
    let limiter =
        Limiter::new(RedisStore::connect(&format!("rediss://{}", redis.address())).await.expect("a store"));
    // The server waits for the rest of what it takes for a command.
    let timeout = (ErrorKind::Timeout, Effect::None);
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, timeout, &["redis://"]);
}
