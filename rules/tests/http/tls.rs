//! Certificates.

use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tollgate_core::documents::{DocumentError, DocumentStore};
use tollgate_core::{ErrorKind, SystemClock};
use tollgate_rules::{HttpDocuments, HttpDocumentsBuilder};

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Starts a server with TLS that has one document, and returns its URL and a configuration that trusts it.
async fn server() -> (String, Arc<ClientConfig>) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a key");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that does not trust the certificate ends the handshake.
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(connection.read_u8().await.expect("a request"));
            }
            let answer =
                b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 3\r\nConnection: close\r\n\r\none";
            connection.write_all(answer).await.expect("a client");
            connection.shutdown().await.expect("a client");
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (format!("https://localhost:{port}"), Arc::new(client))
}

async fn read(builder: HttpDocumentsBuilder<SystemClock>) -> Result<String, DocumentError> {
    let client = builder.token("s3cret").build().expect("valid");
    Ok(client.get("rules/shop").await?.expect("there").text)
}

#[tokio::test]
async fn a_trusted_server_is_read_with_tls() {
    let (url, trusting) = server().await;
    let text = read(HttpDocuments::builder(&url).tls(Arc::clone(&trusting))).await;
    assert_eq!(text.expect("trusted"), "one");
    let (other, _) = server().await;
    let refused = read(HttpDocuments::builder(&other).tls(trusting)).await.expect_err("not trusted");
    let DocumentError::Store(error) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("certificate"), "{error}");
}
